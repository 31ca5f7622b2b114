// What the pages of the server, `simulate`, `loadgen run` and `loadgen compare` share: colours, keys, tables and a chart.

// Told apart by lightness and dashes too, for those who see colours differently.
const dark = matchMedia("(prefers-color-scheme: dark)");
const colours = () => dark.matches
  ? ["#7cc4ff", "#ffb454", "#7ee0a1", "#ff8fa3", "#c9a7ff", "#e6d96a", "#6fe0dc", "#f3a6e2", "#b7bdc9", "#ff9d6e", "#a3d65c", "#8fa8ff"]
  : ["#0b62b0", "#b55a00", "#1b7f46", "#c2183f", "#6a3fb5", "#8a7400", "#00777a", "#a8338f", "#4a5160", "#d1440c", "#527d00", "#3147c9"];
const dashes = ["", "6 3", "2 3", "8 3 2 3"];
const short = value => value === null ? "∞" : value >= 1e4 ? value.toExponential(1).replace("e+", "e")
  : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
const make = (name, attributes = {}, ...children) => {
  const svg = ["svg", "path", "line", "text", "circle", "g", "title"].includes(name);
  const node = svg ? document.createElementNS("http:" + "//www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const styles = names => name => {
  const place = names.indexOf(name), set = colours();
  return { stroke: set[place % set.length], dash: dashes[Math.floor(place / set.length) % dashes.length] };
};

const swatch = ({ stroke, dash }) => make("svg", { width: 26, height: 12, "aria-hidden": true },
  make("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke, "stroke-width": 3, "stroke-dasharray": dash }));

// Buttons of which one of `values`, each with its label, is chosen.
function choice(name, values, chosen, choose) {
  return make("fieldset", {}, make("legend", {}, name), ...values.map(([value, label]) => {
    const button = make("button", { type: "button", "aria-pressed": chosen === value }, label);
    button.onclick = () => choose(value);
    return button;
  }));
}

// Buttons that show and hide each of `names`.
function keys(names, style, hidden, redraw) {
  document.getElementById("keys").replaceChildren(...names.map(name => {
    const button = make("button", { type: "button", "aria-pressed": !hidden.has(name) }, swatch(style(name)), name);
    button.onclick = () => { hidden.has(name) ? hidden.delete(name) : hidden.add(name); redraw(); };
    return button;
  }));
}

const time = us => us === undefined || us === null ? "–" : us >= 1e6 ? `${short(us / 1e6)} s` : us >= 1e3 ? `${short(us / 1e3)} ms` : us > 0 ? `${short(us)} us` : "0";
const RANKS = ["p50", "p90", "p99", "p99_9", "p99_95", "p99_99", "max"];
const known = (block, rank) => block.known ? block.known.includes(rank) : RANKS.indexOf(rank) <= RANKS.indexOf(block.supported);
const plain = v => v >= 1 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));

// The values that an axis names, and where from 0 to 1 a value stands: from 0 up to `most` at least, or in decades.
function linearScale(most) {
  const decade = 10 ** Math.floor(Math.log10(most / 5));
  const step = [1, 2, 5, 10].map(n => n * decade).find(step => step * 5 >= most);
  const marks = Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, n) => n * step);
  return { marks, place: v => v / marks.at(-1) };
}
function logScale(values) {
  const finite = values.filter(v => v > 0);
  let low = finite.length ? Math.min(...finite) : 1, high = finite.length ? Math.max(...finite) : 10;
  low = Math.floor(Math.log10(low) + 1e-9); high = Math.max(Math.ceil(Math.log10(high) - 1e-9), low + 1);
  const marks = [];
  for (let power = low; power <= high; power += Math.ceil((high - low) / 6)) marks.push(10 ** power);
  const inside = v => Math.min(Math.max(Math.log10(Math.max(v, 1e-300)), low), high);
  return { marks, place: v => (inside(v) - low) / (high - low) };
}

// A chart of this width in its own units, with its margins. On a telephone it has fewer units, so that its text is as large.
const frame = (width = innerWidth < 520 ? 330 : 460) => ({ width, left: 52, right: 12, top: 10, bottom: 36 });

// A figure with `lines` of points { x, y, low, high, sign, title }. A `y` of null is infinite, undefined interrupts the line. A
// `sign` stands above its point. The axis is logarithmic without `most`, the least that a linear one shows. `ticks` are
// [x, text], `label` writes a value of y.
function chart({ caption, name, from, to, ticks, lines, most, label = plain, dots = true, width, height = 270, after = [] }) {
  const { left, right, top, bottom, width: whole } = frame(width);
  const all = lines.flatMap(line => line.points.map(point => point.y));
  const values = all.filter(y => y !== null && y !== undefined);
  // What is infinite has a mark of its own, above the scale of what is not.
  const endless = all.includes(null), roof = top + (endless ? 24 : 0);
  const { marks, place } = most ? linearScale(values.reduce((a, b) => Math.max(a, b), most)) : logScale(values);
  const x = v => left + (v - from) / (to - from) * (whole - left - right);
  const y = v => v === null ? top : roof + (1 - place(v)) * (height - roof - bottom);
  const svg = make("svg", { viewBox: `0 0 ${whole} ${height}`, role: "img", "aria-label": caption });
  for (const v of [...(endless ? [null] : []), ...(endless && !values.length ? [] : marks)]) {
    svg.append(make("line", { class: "grid", x1: left, x2: whole - right, y1: y(v), y2: y(v) }),
      make("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v === null ? "∞" : label(v).replace(/\.0+(?=\s|$)/, "")));
  }
  for (const [at, text] of ticks) {
    svg.append(make("text", { x: x(at), y: height - bottom + 18, "text-anchor": "middle" }, text));
  }
  svg.append(make("text", { x: (left + whole - right) / 2, y: height - 2, "text-anchor": "middle" }, name));
  for (const { stroke, dash, points } of lines) {
    let pen = "M";
    const path = points.map(point => {
      if (point.y === undefined) { pen = "M"; return ""; }
      const step = `${pen}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`;
      pen = "L";
      return step;
    }).join("");
    svg.append(make("path", { d: path, fill: "none", stroke, "stroke-width": 2.2, "stroke-dasharray": dash, "stroke-linejoin": "round",
      // A line of one point is a dot.
      "stroke-linecap": dots ? "butt" : "round" }));
    for (const point of dots ? points : []) {
      if (point.low !== undefined) {
        svg.append(make("line", { x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high), stroke,
          "stroke-width": 6, opacity: .25 }));
      }
      const dot = make("circle", { cx: x(point.x), cy: y(point.y), r: 3.6, stroke, "stroke-width": 1.5,
        fill: point.y === null ? "var(--panel)" : stroke });
      dot.append(make("title", {}, point.title));
      svg.append(dot, ...(point.sign ? [make("text", { x: x(point.x), y: y(point.y) - 7, "text-anchor": "middle" }, point.sign)] : []));
    }
  }
  return make("figure", {}, make("figcaption", {}, caption), svg, ...after);
}

// What stands above and below the charts.
function surround({ title, about, findings = [], notes }) {
  for (const [id, text] of Object.entries({ title, about, notes })) document.getElementById(id).textContent = text;
  document.getElementById("findings").hidden = !findings.length;
  document.getElementById("findings").replaceChildren(...findings.map(text => make("li", {}, text)));
}

// A chart over percentiles, in which each nine has the same width.
const nines = percentile => -Math.log10(1 - parseFloat(percentile.slice(1)) / 100);
const PERCENTILES = ["p50", "p90", "p99", "p99.9", "p99.99"];
const overPercentiles = (caption, lines, label) => chart({ caption, name: "percentile", from: .2, to: 4.1, lines, label,
  ticks: PERCENTILES.map(percentile => [nines(percentile), percentile]) });

// The sign before a figure of a run, which may be an upper bound, and what it means. Infinity, null, bounds nothing.
const signOf = (run, figure) => run.verdict === "AT MOST" && figure !== null ? "<" : "", AT_MOST = "<: at most; a late host can only raise a figure.";

// The points of a block in that chart: those of `name`, written by `write`, behind their signs.
const pointsOf = (block, name, write, sign = () => "") => PERCENTILES.map(percentile => {
  const rank = percentile.replace(".", "_"), [low, high] = block.bounds?.[rank] ?? [null, null];
  const before = sign(rank);
  return { x: nines(percentile), y: block[rank], ...(low !== null && high !== null && { low, high }), sign: before,
    title: `${name}, ${percentile}: ${before}${write(block[rank])}${known(block, rank) ? "" : "?"}` };
});

// Round values between two, at most eight of them.
function roundTicks(from, to) {
  const apart = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300].find(step => (to - from) / step <= 8) ?? (to - from);
  const ticks = [];
  for (let n = Math.ceil(from / apart - 1e-9); n * apart <= to + 1e-9; n++) ticks.push([n * apart, String(+(n * apart).toFixed(3))]);
  return ticks;
}

// The line below a chart that names its lines, each with what else is said of it.
const legend = named => make("p", { class: "lines" }, ...named.map(([style, text]) => make("span", {}, swatch(style), text)));

function rows(head, body, id = "table") {
  const row = (kind, cells) => make("tr", {}, ...cells.map(text => make(kind, {}, String(text))));
  document.getElementById(id).replaceChildren(
    make("thead", {}, row("th", head)), make("tbody", {}, ...body.map(cells => row("td", cells))));
}
