// Latency and slowdown by percentile, a line for each class, and the requests of each second.
const { classes, run } = report;
const state = { hidden: new Set() };
const style = styles(classes), two = styles(["sent", "answered"]);
// Where all were answered, both lines are seen.
const drawn = { sent: two("sent"), answered: { ...two("answered"), dash: "6 5" } };
const inTime = us => us === null ? "∞" : time(us);
// Only where costs are known.
const parts = Object.entries(run.parts_us ?? {}), partStyle = styles(parts.map(([name]) => name));
const slowdown = run.slowdown ? [["slowdown", run.slowdown, short]] : [];
const figures = [["latency", run.latency_us, inTime], ...slowdown];
const seconds = run.by_second.length;
const sign = us => signOf(run, us);

surround({ ...report, notes: "Latency is from the intended send to the kernel's stamp of the reply" +
  `${run.slowdown ? "; slowdown is latency over cost" : ""}. ∞: not answered in time. Bands: 95 % intervals. ${sign(0) && `${AT_MOST} `}${report.notes}` });

const visible = () => classes.filter(name => !state.hidden.has(name));

function byPercentile([what, blocks, write]) {
  const lines = visible().map(name => ({ ...style(name), points: pointsOf(blocks[name], name, write, rank => sign(blocks[name][rank])) }));
  return overPercentiles(`${what} of each class`, lines, what === "latency" ? time : undefined);
}

function byPart() {
  const lines = parts.map(([name, block]) => ({ ...partStyle(name), points: pointsOf({ known: run.latency_us.all.known, ...block }, name, time) }));
  const figure = overPercentiles("parts of the latency near each percentile", lines, time);
  figure.append(legend(parts.map(([name]) => [partStyle(name), name])));
  return figure;
}

// The last second may be a part of one.
function bySecond() {
  const rate = (count, second) => count / Math.min(Math.max(run.duration_s - second, .05), 1);
  const lines = ["sent", "answered"].map((name, n) => ({ ...drawn[name], points: run.by_second.map((counts, second) =>
    ({ x: second + .5, y: rate(counts[n], second), title: `second ${second + 1}: ${counts[n]} ${name}` })) }));
  return chart({ caption: "requests a second", name: "measured time, s", from: 0, to: Math.max(seconds, 1), ticks: roundTicks(0, seconds),
    lines, most: 5, dots: seconds <= 60, after: [legend([[drawn.sent, "due to be sent"], [drawn.answered, "of these answered in time"]])] });
}

function draw() {
  keys(classes, style, state.hidden, draw);
  document.getElementById("charts").replaceChildren(...figures.map(byPercentile), ...(parts.length ? [byPart()] : []), bySecond());
  rows(["class", "answered", ...RANKS.map(rank => rank.replace("_", ".")), ""], visible().flatMap(name => figures.map(([what, blocks, write]) =>
    [`${name}, ${what}`, plain(blocks[name].count), ...RANKS.map(rank => (blocks[name].count ? sign(blocks[name][rank]) : "") + write(blocks[name][rank]) + (rank === "max" || !blocks[name].count || known(blocks[name], rank) ? "" : "?")), ""])));
}
dark.addEventListener("change", draw);
draw();
