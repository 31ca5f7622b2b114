// One chart for each class: slowdown (or latency, if costs are not known) by percentile, measured and in virtual time.
const state = { hidden: new Set() };
const names = report.arms.map(arm => arm.arm);
const style = styles(names);
const simulated = name => report.virtual_time?.policies.find(one => one.policy === name.split("#")[0])?.slowdown;
const classes = report.classes, figure = report.arms[0]?.slowdown ? "slowdown" : "latency_us";
const what = figure === "slowdown" ? "slowdown" : "latency, us,";

surround({ ...report, notes: "Slowdown is latency over cost, from the intended send to the reply; what was " +
  "not answered is infinite. Bands: 95 % intervals. Dashed: the same policy in virtual time. ?: not known from runs this short. " + AT_MOST });

const visible = () => names.filter(name => !state.hidden.has(name));

// The lines of a policy and a class: names, values and styles. Bands show the intervals of measured values.
function linesOf(name, kind) {
  const again = simulated(name)?.[kind];
  const arm = report.arms.find(arm => arm.arm === name), raised = arm.at_most[kind] ?? [];
  return [{ name, block: arm[figure][kind], sign: rank => raised.includes(rank) ? "<" : "", ...style(name), dash: "" },
    ...(again ? [{ name: `${name}, virtual time`, sign: () => "", block: { ...again, bounds: undefined }, ...style(name), dash: "3 4" }] : [])];
}

const byPercentile = kind => overPercentiles(`${what} of ${kind} requests`, visible().flatMap(name => linesOf(name, kind))
  .map(({ name, block, sign, ...line }) => ({ ...line, points: pointsOf(block, name, short, sign) })));

function draw() {
  keys(names, style, state.hidden, draw);
  document.getElementById("charts").replaceChildren(...classes.map(byPercentile));
  const cell = ({ block, sign }, rank) => sign(rank) + short(block[rank]) + (known(block, rank) ? "" : "?");
  rows(["policy", ...PERCENTILES, ""], visible().flatMap(name => classes.flatMap(kind => linesOf(name, kind).map(line =>
    [`${line.name}, ${kind}`, ...PERCENTILES.map(percentile => cell(line, percentile.replace(".", "_"))), ""]))));
}
dark.addEventListener("change", draw);
draw();
