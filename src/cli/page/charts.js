// What the pages of `simulate` and `compare` share: colours, keys, and a chart with a log scale.

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

// Buttons that show and hide each of `names`.
function keys(names, style, hidden, redraw) {
  document.getElementById("keys").replaceChildren(...names.map(name => {
    const { stroke, dash } = style(name);
    const line = make("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke, "stroke-width": 3, "stroke-dasharray": dash });
    const button = make("button", { type: "button", "aria-pressed": !hidden.has(name) },
      make("svg", { width: 26, height: 12, style: "width:26px" }, line), name);
    button.onclick = () => { hidden.has(name) ? hidden.delete(name) : hidden.add(name); redraw(); };
    return button;
  }));
}

// A figure with `lines` of points { x, y, low, high, title }; y is on a log scale, null is infinite. `ticks` are [x, text].
function chart({ caption, name, from, to, ticks, lines }) {
  const width = 460, height = 270, left = 52, right = 12, top = 10, bottom = 36;
  const finite = lines.flatMap(line => line.points.map(point => point.y)).filter(y => y !== null && y > 0);
  let low = Math.min(...finite), high = Math.max(...finite);
  if (!finite.length) [low, high] = [1, 10];
  low = 10 ** Math.floor(Math.log10(low) + 1e-9); high = 10 ** Math.ceil(Math.log10(high) - 1e-9);
  if (high <= low) high = low * 10;
  const x = v => left + (v - from) / (to - from) * (width - left - right);
  const y = v => v === null ? top : top + (1 - (Math.log10(Math.min(Math.max(v, low), high)) - Math.log10(low)) /
    (Math.log10(high) - Math.log10(low))) * (height - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": caption });
  const decades = Math.round(Math.log10(high / low));
  for (let power = 0; power <= decades; power += Math.ceil(decades / 6)) {
    const v = low * 10 ** power;
    svg.append(make("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      make("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v >= 1 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3))));
  }
  for (const [at, text] of ticks) {
    svg.append(make("text", { x: x(at), y: height - bottom + 18, "text-anchor": "middle" }, text));
  }
  svg.append(make("text", { x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle" }, name));
  for (const { stroke, dash, points } of lines) {
    const path = points.map((point, n) => `${n ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("");
    svg.append(make("path", { d: path, fill: "none", stroke, "stroke-width": 2.2, "stroke-dasharray": dash, "stroke-linejoin": "round" }));
    for (const point of points) {
      if (point.low !== undefined) {
        svg.append(make("line", { x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high), stroke,
          "stroke-width": 6, opacity: .25 }));
      }
      const dot = make("circle", { cx: x(point.x), cy: y(point.y), r: 3.6, stroke, "stroke-width": 1.5,
        fill: point.y === null ? "var(--panel)" : stroke });
      dot.append(make("title", {}, point.title));
      svg.append(dot);
    }
  }
  return make("figure", {}, make("figcaption", {}, caption), svg);
}

function rows(head, body) {
  const row = (kind, cells) => make("tr", {}, ...cells.map(text => make(kind, {}, String(text))));
  document.getElementById("table").replaceChildren(
    make("thead", {}, row("th", head)), make("tbody", {}, ...body.map(cells => row("td", cells))));
}
