// Slowdown by percentile, one chart a class: measured, and in virtual time.
const state = { hidden: new Set() };
const names = report.arms.map(arm => arm.arm);
const style = styles(names);
const simulated = name => report.virtual_time?.policies.find(one => one.policy === name.split("#")[0])?.slowdown;
const classes = report.classes;

document.getElementById("title").textContent = report.title;
document.getElementById("about").textContent = report.about;
document.getElementById("findings").hidden = !report.findings.length;
document.getElementById("findings").replaceChildren(...report.findings.map(text => make("li", {}, text)));
document.getElementById("notes").textContent = "Slowdown is latency over cost, from the intended send to the reply; what was " +
  "not answered is infinite. Bands: 95 % intervals. Dashed: the same policy in virtual time. ?: not known from runs this short.";

function byPercentile(kind) {
  const lines = names.filter(name => !state.hidden.has(name)).flatMap(name => {
    const points = (figures, bounded) => figures.map(({ percentile, value, low, high }) => ({
      x: nines(percentile), y: value, ...(bounded && high !== null && { low, high }),
      title: `${name}${bounded ? "" : ", virtual time"}, ${percentile}: ${short(value)}`,
    }));
    const measured = report.arms.find(arm => arm.arm === name).slowdown[kind];
    const again = simulated(name)?.[kind];
    const { stroke } = style(name);
    return [{ stroke, dash: "", points: points(measured, true) },
      ...(again ? [{ stroke, dash: "3 4", points: points(again, false) }] : [])];
  });
  return overPercentiles(`slowdown of ${kind} requests`, lines);
}

function draw() {
  keys(names, style, state.hidden, draw);
  document.getElementById("charts").replaceChildren(...classes.map(byPercentile));
  const cell = figure => short(figure.value) + (figure.known ? "" : "?");
  const of = (figures, percentile) => figures?.find(figure => figure.percentile === percentile);
  rows(["policy", ...PERCENTILES, ""], names.filter(name => !state.hidden.has(name)).flatMap(name =>
    classes.flatMap(kind => [["", report.arms.find(arm => arm.arm === name).slowdown[kind]],
      [", virtual time", simulated(name)?.[kind]]].filter(([, figures]) => figures).map(([what, figures]) =>
      [`${name}, ${kind}${what}`, ...PERCENTILES.map(percentile => cell(of(figures, percentile))), ""]))));
}
dark.addEventListener("change", draw);
draw();
