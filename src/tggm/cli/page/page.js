"use strict";
// Everything that comes from the model or a file becomes text, never markup.
const byId = (id) => document.getElementById(id);
const shown = (x) => (x === null ? "–" : Number(x).toPrecision(4).replace(/\.?0+$/, ""));
const SVG = "http://www.w3.org/2000/svg";
let model = null, latest = 0, waiting = null;

function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function drawn(kind, attributes, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  byId("plot").append(made);
}

function inputOf(column, k) {
  const row = element("div", "", { class: "row" });
  row.append(element("label", column.name, { for: `c${k}`, title: column.about }));
  if (column.kind === "number") {
    const slider = element("input", "", { type: "range", min: column.low, max: column.high, step: "any", "aria-label": column.name });
    const box = element("input", "", { type: "number", step: "any", id: `c${k}`, placeholder: "gap" });
    slider.value = column.value;
    box.value = Number(column.value.toPrecision(6));
    slider.addEventListener("input", () => { box.value = Number(Number(slider.value).toPrecision(6)); ask(); });
    box.addEventListener("input", () => { slider.value = box.value; ask(); });
    row.append(slider, box);
  } else if (column.kind === "words") {
    const choice = element("select", "", { id: `c${k}`, class: "wide" });
    for (const word of column.words) choice.append(element("option", word, { value: word }));
    choice.append(element("option", "(missing)", { value: "" }));
    choice.addEventListener("input", ask);
    row.append(choice);
  } else {
    const box = element("input", "", { id: `c${k}`, class: "wide" });
    box.value = column.value ?? "";
    box.addEventListener("input", ask);
    row.append(box);
  }
  return row;
}

function values() {
  const row = {};
  model.columns.forEach((column, k) => {
    const text = byId(`c${k}`).value;
    row[column.name] = text === "" ? null : text;
  });
  return row;
}

async function sent(kind, body) {
  const reply = await fetch("predict", { method: "POST", headers: { "Content-Type": kind }, body });
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

function ask() {
  clearTimeout(waiting);
  waiting = setTimeout(asked, 40);
}

async function asked() {
  const turn = ++latest;
  try {
    const found = await sent("application/json", JSON.stringify({ rows: [values()] }));
    if (turn === latest) show(found);
  } catch (error) {
    if (turn === latest) told(error.message, true);
  }
}

function told(text, wrong = false) {
  byId("summary").textContent = text;
  byId("summary").className = wrong ? "wrong" : "";
}

function show(found) {
  byId("plot").replaceChildren();
  byId("notes").textContent = found.notes.join("; ");
  if (model.task === "classification") {
    told(`${model.target}: ${found.label[0]}`);
    bars(found.labels, found.probabilities[0]);
  } else {
    const q = found.quantiles[0];
    told(`${model.target}: ${shown(found.mean[0])} ± ${shown(found.deviation[0])}, 90 % between ${shown(q[0])} and ${shown(q[4])}`);
    curve(found.densities[0], found.mean[0]);
  }
}

function curve({ y, density }, mean) {
  const top = Math.max(...density), low = y[0], high = y[y.length - 1];
  if (!(top > 0) || !(high > low)) return;
  const x = (v) => 20 + (560 * (v - low)) / (high - low);
  const path = y.map((v, k) => `${x(v).toFixed(1)},${(200 - (180 * density[k]) / top).toFixed(1)}`).join(" L");
  drawn("path", { class: "curve", d: `M20,200 L${path} L580,200 Z` });
  if (mean >= low && mean <= high) drawn("line", { class: "centre", x1: x(mean), x2: x(mean), y1: 15, y2: 200 });
  drawn("line", { class: "axis", x1: 20, x2: 580, y1: 200, y2: 200 });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const v = low + part * (high - low);
    drawn("text", { x: x(v), y: 220, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, shown(v));
  }
}

function bars(labels, p) {
  const order = p.map((_, k) => k).sort((a, b) => p[b] - p[a]).slice(0, 9);
  order.forEach((k, place) => {
    const y = 8 + 25 * place;
    drawn("rect", { class: "bar", x: 200, y, width: 320 * p[k], height: 18 });
    drawn("text", { x: 190, y: y + 14, "text-anchor": "end" }, labels[k].slice(0, 24));
    drawn("text", { x: 206 + 320 * p[k], y: y + 14 }, p[k].toFixed(3));
  });
}

function listed(found) {
  const names = model.task === "classification" ? [model.target, "probability"] : ["mean", "deviation", "5 %", "95 %"];
  const table = element("table", "");
  const head = element("tr", "");
  for (const name of ["row", ...names]) head.append(element("th", name));
  table.append(head);
  const count = (found.label ?? found.mean).length;
  for (let k = 0; k < Math.min(count, 200); k++) {
    const cells = found.label ? [found.label[k], shown(Math.max(...found.probabilities[k]))]
      : [shown(found.mean[k]), shown(found.deviation[k]), shown(found.quantiles[k][0]), shown(found.quantiles[k][4])];
    const line = element("tr", "");
    for (const cell of [k + 1, ...cells]) line.append(element("td", String(cell)));
    table.append(line);
  }
  byId("table").replaceChildren(table, element("p", count > 200 ? `and ${count - 200} more rows` : ""));
}

byId("file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  if (!file) return;
  try {
    listed(await sent("text/csv", await file.text()));
  } catch (error) {
    byId("table").replaceChildren(element("p", error.message));
  }
});

(async () => {
  model = await (await fetch("model")).json();
  byId("title").textContent = document.title = `${model.target} (${model.task})`;
  byId("inputs").append(...model.columns.map(inputOf));
  byId("inputs").addEventListener("submit", (event) => event.preventDefault());
  ask();
})();
