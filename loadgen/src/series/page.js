// Latency and loss over the rate. Dashed: the limits of the SLO, and the highest rate that holds it.
const runs = report.runs.map((run, n) => ({ ...run, said: report.verdicts[n] })).sort((a, b) => a.offered_rps - b.offered_rps);
const ranks = ["p50", "p99", "p99_9"], style = styles(ranks), rates = runs.map(run => run.offered_rps);
const lost = ({ fates, sent }) => sent ? 100 * (1 - fates.answered / sent) : 0;
const inTime = us => us === null ? "∞" : time(us);
const latency = run => run.latency_us.all;

surround({ ...report, notes: "Latency is from the intended send to the kernel's stamp of the reply. ∞: not answered in time. " +
  "Bands: 95 % intervals. ?: not known within a factor of 2. Only VALID runs are drawn; the table has all." });

const drawn = runs.filter(run => !run.said.startsWith("INVALID"));
const values = drawn.flatMap(run => ranks.map(rank => latency(run)[rank])).concat(report.limits.map(([, us]) => us)).filter(us => us > 0);
const [from, to] = [0, Math.max(...rates) * 1.02];
const every = 10 ** Math.floor(Math.log10(to / 4)), step = [1, 2, 5, 10].map(n => n * every).find(step => to / step <= 6);
const ticks = Array.from({ length: Math.floor(to / step) + 1 }, (_, n) => [n * step, plain(n * step)]);
const mark = { stroke: "var(--faint, currentColor)", dash: "5 4" };

function point(run, y, what) {
  const rank = ranks.find(rank => rank === what), [low, high] = latency(run).bounds?.[rank] ?? [null, null];
  return { x: run.offered_rps, y, ...(low !== null && high !== null && { low, high }), title: `${plain(run.offered_rps)}/s, ${run.said}` };
}

function draw() {
  const lines = ranks.map(rank => ({ ...style(rank), points: drawn.map(run => point(run, latency(run)[rank], rank)) }));
  for (const [name, us] of report.limits) lines.push({ ...mark, points: [from, to].map(x => ({ x, y: us, title: name })) });
  if (report.knee && values.length) {
    lines.push({ ...mark, points: [Math.min(...values), Math.max(...values)].map(y => ({ x: report.knee, y, title: "the highest rate that holds" })) });
  }
  const axis = { name: "requests a second", from, to, ticks };
  const named = [...ranks.map(rank => [style(rank), rank.replace("_", ".")]), ...(report.limits.length ? [[mark, "SLO, and the highest rate that holds it"]] : [])];
  document.getElementById("charts").replaceChildren(
    chart({ ...axis, caption: "latency over the rate", lines, label: time, after: [legend(named)] }),
    chart({ ...axis, caption: "not answered in time, %", most: 1, lines: [{ ...style("p50"), points: drawn.map(run => point(run, lost(run))) }] }));
  rows(["rate/s", "answered/s", ...ranks.map(rank => rank.replace("_", ".")), "lost", "verdict"], runs.map(run =>
    [plain(run.offered_rps), plain(run.achieved_rps), ...ranks.map(rank => inTime(latency(run)[rank]) + (known(latency(run), rank) ? "" : "?")),
      `${short(lost(run))} %`, [run.said, ...run.reasons].join(": ")]));
}
dark.addEventListener("change", draw);
draw();
