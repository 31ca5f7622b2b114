const percentiles = [["p50", "p50"], ["p99", "p99"], ["p99_9", "p99.9"], ["p99_95", "p99.95"]];
const results = report.results;
const curves = results.filter(r => r.max_load === undefined);
const policies = [...new Set(results.map(r => r.policy))];
const classes = [...new Set(results.flatMap(r => Object.keys(r.slowdown)))];
const state = { figure: "slowdown", kind: "all", hidden: new Set() };
const style = styles(policies);
const [first] = results;
surround({
  title: `${first.workload} on ${first.workers} workers`,
  about: `${report.requests.toLocaleString("en")} requests in each simulation after ${report.warmup.toLocaleString("en")} of ` +
  `warm-up, seed ${report.seed}. Overheads: ${report.overheads}.` +
  (report.goal ? ` Highest load with ${report.goal.replace("<=", " ≤ ")}.` : ""),
  notes: "Slowdown is latency over cost. A circle on the upper edge is a percentile of which too many requests were never " +
    "answered. ? marks percentiles that the sample is too small to bound (95 % confidence).",
});

function controls() {
  const group = (name, key, values) => choice(name, values, state[key], value => { state[key] = value; draw(); });
  document.getElementById("controls").replaceChildren(
    group("figure", "figure", [["slowdown", "slowdown"], ["latency_us", "latency"]]),
    group("class", "kind", classes.map(name => [name, name])));
  keys(policies, style, state.hidden, draw);
}

function byLoad([key, label]) {
  const shown = curves.filter(r => !state.hidden.has(r.policy) && r[state.figure][state.kind]);
  const value = r => r[state.figure][state.kind][key];
  const loads = shown.map(r => r.load);
  let [from, to] = [Math.min(...loads, 1), Math.max(...loads, 0)];
  if (from >= to) [from, to] = [from - .1, to + .1];
  const ticks = roundTicks(from, to);
  const unit = state.figure === "latency_us" ? " us" : "";
  const lines = policies.filter(policy => !state.hidden.has(policy)).map(policy => ({
    ...style(policy),
    points: shown.filter(r => r.policy === policy).sort((a, b) => a.load - b.load).map(r =>
      ({ x: r.load, y: value(r), title: `${policy} at ${r.load}: ${short(value(r))}${unit}\n${r.chosen}` })),
  }));
  const caption = `${label} ${state.figure === "slowdown" ? "slowdown" : "latency, us"}`;
  return chart({ caption, name: "load", from, to, ticks, lines });
}

function table() {
  const loaded = results.some(r => r.max_load !== undefined);
  const head = ["policy", ...(loaded ? ["highest load"] : ["load"]), ...percentiles.map(p => p[1]), "chosen"];
  const cell = (block, key) => !block ? "" : short(block[key]) + (known(block, key) ? "" : "?");
  rows(head, results.filter(r => !state.hidden.has(r.policy)).map(r => {
    const load = loaded ? (r.max_load > 0 ? r.max_load.toFixed(2) : "< 0.01") : r.load;
    return [r.policy, load, ...percentiles.map(p => cell(r.max_load === 0 ? null : r[state.figure][state.kind], p[0])), r.chosen];
  }));
}

function draw() {
  controls();
  document.getElementById("charts").replaceChildren(...(curves.length ? percentiles.map(byLoad) : []));
  table();
}
dark.addEventListener("change", draw);
draw();
