// The parts of a browser that the scripts of Forebay's pages use, and no more. Reads { page, answers } on standard input.
// `answers` has one object per second, with the answer of each path: { "latency": [200, "..."] }; other paths fail. Prints for
// each second, or once without answers: the text of each element with an id, and how many lines it has drawn. `press` names a
// button to press before that second.

class Element {
  constructor(name) { Object.assign(this, { name, attributes: {}, children: [], hidden: false }); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  addEventListener(event, act) { this[event] = act; }
  find(text) { return this.name === "button" && this.textContent.trim() === text ? this : this.children.map(child => child.find?.(text)).find(found => found); }
  get textContent() { return this.children.map(child => child.textContent ?? child).join(" "); }
  set textContent(text) { this.children = [text]; }
  get lines() {
    if (this.name === "path" && /NaN|undefined|Infinity/.test(this.attributes.d)) throw new Error(`a path is ${this.attributes.d}`);
    return (this.name === "path" && this.attributes.d.includes("L")) + this.children.reduce((sum, child) => sum + (child.lines ?? 0), 0);
  }
}

async function main() {
  const { page, answers = [] } = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const [, script] = page.match(/<script[^>]*>([^]*)<\/script>/);
  const elements = new Map([...page.replace(script, "").matchAll(/ id="(\w+)"/g)].map(([, id]) => [id, new Element(id)]));
  const document = {
    getElementById: id => elements.get(id),
    createElement: name => new Element(name),
    createElementNS: (_, name) => new Element(name),
    querySelectorAll: () => [],
  };
  let now, open = {}, timer;
  class Clock extends Date { static now() { return now; } }
  const fetch = async path => {
    if (!open[path]) throw new TypeError(`${path} is not reached`);
    const [status, text] = open[path];
    return { status, text: async () => text };
  };
  const names = { document, fetch, Date: Clock, setTimeout: call => { timer = call; }, innerWidth: 1000,
    matchMedia: () => ({ matches: false, addEventListener() {} }) };
  const begin = () => new Function(...Object.keys(names), `"use strict";${script}`)(...Object.values(names));
  const shown = () => Object.fromEntries([...elements].map(([id, { textContent: text, lines, hidden }]) => [id, { text, lines, hidden }]));
  const seconds = [];
  if (!answers.length) { begin(); seconds.push(shown()); }
  for (const { at, press, ...paths } of answers) {
    if (press) elements.get("controls").find(press).onclick();
    [now, open] = [at, paths];
    const call = timer ?? begin;
    timer = undefined;
    call();
    for (let turn = 0; !timer && turn < 1000; turn++) await new Promise(setImmediate);
    if (!timer) throw new Error("the page does not ask again");
    seconds.push(shown());
  }
  console.log(JSON.stringify(seconds));
}
main();
