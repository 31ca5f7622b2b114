// Latency and loss over the rate. Dashed: the limits of the SLO, and the highest rate that holds it.
const runs = report.runs.map((run, n) => ({ ...run, said: report.verdicts[n] })).sort((a, b) => a.offered_rps - b.offered_rps);
const ranks = ["p50", "p99", "p99_9"], style = styles(ranks), mark = { stroke: "currentColor", dash: "5 4" };
const lost = ({ fates, sent }) => sent ? 100 * (1 - fates.answered / sent) : 0;
const latency = run => run.latency_us.all;

surround({ ...report, notes: "Latency is from the intended send to the kernel's stamp of the reply. ∞: not answered in time. " +
  `Bands: 95 % intervals. ?: not known within a factor of 2. ${runs.some(run => signOf(run, 0)) ? `${AT_MOST} ` : ""}INVALID runs are not drawn; the table has all.` });

const drawn = runs.filter(run => !run.said.startsWith("INVALID"));
const values = drawn.flatMap(run => ranks.map(rank => latency(run)[rank])).concat(report.limits.map(([, us]) => us)).filter(us => us > 0);
const from = 0, to = Math.max(...runs.map(run => run.offered_rps)) * 1.02, { marks } = linearScale(to);
const axis = { name: "requests a second", from, to, ticks: marks.filter(rate => rate <= to).map(rate => [rate, plain(rate)]) };

function lineOf(style, y, rank) {
  const band = run => latency(run).bounds?.[rank]?.every(end => end !== null) ? { low: latency(run).bounds[rank][0], high: latency(run).bounds[rank][1] } : {};
  return { ...style, points: drawn.map(run => ({ x: run.offered_rps, y: y(run), ...band(run), sign: signOf(run, y(run)), title: `${plain(run.offered_rps)}/s, ${run.said}` })) };
}

function draw() {
  const lines = ranks.map(rank => lineOf(style(rank), run => latency(run)[rank], rank));
  for (const [title, y] of report.limits) lines.push({ ...mark, points: [from, to].map(x => ({ x, y, title })) });
  if (report.knee && values.length) lines.push({ ...mark, points: [Math.min(...values), Math.max(...values)].map(y => ({ x: report.knee, y, title: "holds" })) });
  const named = [...ranks.map(rank => [style(rank), rank.replace("_", ".")]), ...(report.knee ? [[mark, "SLO, and the highest rate that holds it"]] : [])];
  document.getElementById("charts").replaceChildren(chart({ ...axis, caption: "latency over the rate", lines, label: time, after: [legend(named)] }),
    chart({ ...axis, caption: "not answered in time, %", most: 1, lines: [lineOf(style("p50"), lost)] }));
  const figure = run => rank => signOf(run, latency(run)[rank]) + (latency(run)[rank] === null ? "∞" : time(latency(run)[rank])) + (known(latency(run), rank) ? "" : "?");
  rows(["rate/s", "answered/s", ...ranks.map(rank => rank.replace("_", ".")), "lost", "verdict"], runs.map(run =>
    [plain(run.offered_rps), plain(run.achieved_rps), ...ranks.map(figure(run)), `${signOf(run, lost(run))}${short(lost(run))} %`, [run.said, ...run.reasons].join(": ")]));
}
dark.addEventListener("change", draw);
draw();
