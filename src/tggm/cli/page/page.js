"use strict";
// All content from the model or a file is inserted as text, never as markup.
const byId = (id) => document.getElementById(id);
const PAUSE = 30; // milliseconds between two requests
let model = null, busy = false, again = false, latest = null;

function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// A slider over the observed values with about 200 round steps, and a box that accepts any number.
function numberInputs(column, id) {
  const { low, high } = column, wide = 10 ** Math.floor(Math.log10((high - low) / 50) || 0);
  const step = column.whole ? Math.max(1, wide) : wide;
  const round = (x) => Math.min(high, Math.max(low, Number((Math.round(x / step) * step).toPrecision(12))));
  const ends = { min: Math.floor(low / step) * step, max: Math.ceil(high / step) * step };
  const slider = element("input", "", { type: "range", ...ends, step, "aria-label": `${column.name}, slider` });
  const box = element("input", "", { type: "number", step: "any", id, placeholder: "missing" });
  const plain = (x) => (x !== 0 && Math.abs(x) < 1e-3 ? Number(x.toPrecision(4)).toExponential() : x);
  box.value = plain(column.value);
  slider.value = column.value;
  slider.addEventListener("input", () => { box.value = plain(round(Number(slider.value))); ask(); });
  box.addEventListener("input", () => { slider.value = box.value; ask(); });
  if (!column.marks.length) return [slider, box];
  const mark = element("select", "", { id: `${id}m`, class: "wide", "aria-label": `${column.name}, mark` });
  mark.append(element("option", "number without a mark", { value: "" }), ...column.marks.map((text) => element("option", text)));
  mark.addEventListener("input", ask);
  return [slider, box, mark];
}

// The value of a column as in a file: a number, a mark such as <LOD, or both such as <0.5.
function written(k) {
  const mark = byId(`c${k}m`)?.value ?? "";
  return /[\p{L}\p{N}]/u.test(mark) ? mark : mark + byId(`c${k}`).value;
}

function wordsInput(column, id) {
  const choice = element("select", "", { id, class: "wide" });
  for (const word of column.words) choice.append(element("option", word, { value: word }));
  choice.append(element("option", "(missing)", { value: "" }));
  choice.addEventListener("input", ask);
  return [choice];
}

function textInput(column, id) {
  const box = element("input", "", { id, class: "wide", placeholder: "missing" });
  box.value = column.value ?? "";
  box.addEventListener("input", ask);
  return [box];
}

function inputOf(column, k) {
  const row = element("div", "", { class: "row" }), id = `c${k}`;
  const made = { number: numberInputs, words: wordsInput }[column.kind] ?? textInput;
  row.append(element("label", column.name, { for: id, title: column.about }), ...made(column, id));
  return row;
}

function values() {
  const texts = model.columns.map((column, k) => [column.name, written(k)]);
  return Object.fromEntries(texts.map(([name, text]) => [name, text === "" ? null : text]));
}

async function fetched(path, options) {
  const reply = await fetch(path, options).catch(() => {
    throw new Error("The server does not answer. Is tggm serve still running?");
  });
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

const sent = (body) => fetched("predict", { method: "POST", headers: { "Content-Type": "application/json" }, body });

// Send one request at a time; later changes are sent next, so that the plot follows a slider.
async function ask() {
  again = true;
  if (busy) return;
  busy = true;
  while (again) {
    again = false;
    await sent(JSON.stringify({ rows: [values()] })).then(show).catch(refused);
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  busy = false;
}

function refused(error) {
  latest = null;
  cleared(0);
  byId("legend").textContent = byId("notes").textContent = "";
  byId("summary").replaceChildren(element("span", error.message, { class: "wrong" }));
}

function show(found) {
  latest = found;
  byId("notes").textContent = found.notes.join("; ");
  const best = model.task === "classification" ? found.label[0] : shown(found.mean[0]);
  byId("summary").replaceChildren(element("b", best));
  draw();
}

function draw() {
  if (!latest) return;
  if (model.task === "classification") {
    byId("legend").textContent = latest.labels.length > 9 ? "The nine most probable classes." : "Probabilities of the classes.";
    bars(latest.labels, latest.probabilities[0]);
    return;
  }
  const q = latest.quantiles[0];
  byId("summary").append(` ± ${shown(latest.deviation[0], 3)}, and between ${shown(q[0])} and ${shown(q[4])} with 90 % probability`);
  byId("legend").textContent = "Predictive density. Dark: the middle 90 %. Dashed: the mean; ± is the standard deviation.";
  curve(latest, latest.mean[0], q[0], q[4]);
}

window.addEventListener("resize", () => { if (latest) show(latest); });

(async () => {
  model = await fetched("model");
  byId("title").textContent = document.title = `Prediction of ${model.target}`;
  byId("inputs").append(...model.columns.map(inputOf));
  byId("inputs").addEventListener("submit", (event) => event.preventDefault());
  ask();
})();
