"use strict";
// Plots of one prediction, drawn in screen pixels, so that text keeps its size.
const SVG = "http://www.w3.org/2000/svg";
const EDGE = 24; // left and right of the axis
let axis = null; // of the last curve; it is kept while new curves fit into it

// A number as text: four digits, six for large numbers, and powers of ten only for extreme sizes.
function shown(x, least = 4) {
  if (x === null || !Number.isFinite(Number(x))) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e12)) return Number(x).toExponential(least - 1).replace(/\.?0+e/, "e");
  const whole = Math.floor(Math.log10(size || 1)) + 1;
  return new Intl.NumberFormat("en", { maximumSignificantDigits: Math.max(least, Math.min(6, whole)) }).format(x);
}

function drawn(kind, attributes, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  document.getElementById("plot").append(made);
  return made;
}

// Clear the plot, set its height, and return its width.
function cleared(height) {
  const plot = document.getElementById("plot"), width = Math.max(plot.clientWidth, 200);
  plot.replaceChildren();
  plot.setAttribute("height", height);
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return width;
}

// Round numbers between two ends, about `count`, but at least three.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const wide = [1, 2, 5, 10].filter((factor) => factor * power >= rough)[0];
  for (const factor of [wide, wide / 2, wide / 4, wide / 10]) {
    const step = factor * power, first = Math.ceil(low / step), made = Math.floor(high / step) - first + 1;
    if (made >= 3) return Array.from({ length: made }, (_, k) => Number(((first + k) * step).toPrecision(12)));
  }
  return [];
}

// Numbers as text; long ones such as 300M if all stay different.
function tickLabels(places) {
  const plain = places.map((v) => shown(v));
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
  const brief = places.map((v) => compact.format(v));
  const long = plain.some((text) => text.length > 7) && plain.every((text) => !text.includes("e"));
  return long && new Set(brief).size === brief.length ? brief : plain;
}

// The last axis if the curve fits into it and covers an eighth of it, or a new one with room on both sides.
function axisFor(low, high) {
  const fits = axis && low >= axis[0] && high <= axis[1] && high - low > (axis[1] - axis[0]) / 8;
  if (!fits) axis = [low - (high - low) / 2, high + (high - low) / 2];
  return axis;
}

function curve({ y, density }, mean, from, to) {
  const height = window.innerWidth < 480 ? 180 : 260, floor = height - 32;
  const width = cleared(height), top = Math.max(...density);
  if (!(top > 0) || !(y[y.length - 1] > y[0])) return;
  const [low, high] = axisFor(y[0], y[y.length - 1]);
  const x = (v) => EDGE + ((width - 2 * EDGE) * (v - low)) / (high - low);
  const points = y.map((v, k) => [v, `${x(v).toFixed(1)},${(floor - ((floor - 12) * density[k]) / top).toFixed(1)}`]);
  const line = (some) => some.map((point) => point[1]).join(" L");
  const area = (some) => some.length && `M${x(some[0][0]).toFixed(1)},${floor} L${line(some)} L${x(some[some.length - 1][0]).toFixed(1)},${floor} Z`;
  drawn("path", { class: "whole", d: area(points) });
  drawn("path", { class: "inner", d: area(points.filter(([v]) => v >= from && v <= to)) || "M0,0" });
  drawn("path", { class: "curve", d: `M${line(points)}` });
  if (mean >= low && mean <= high) drawn("line", { class: "centre", x1: x(mean), x2: x(mean), y1: 6, y2: floor });
  drawn("line", { class: "axis", x1: EDGE, x2: width - EDGE, y1: floor, y2: floor });
  const places = ticks(low, high, Math.max(3, Math.floor(width / 75)));
  tickLabels(places).forEach((text, k) => {
    const at = x(places[k]);
    drawn("line", { class: "axis", x1: at, x2: at, y1: floor, y2: floor + 5 });
    drawn("text", { x: at, y: floor + 20, "text-anchor": "middle" }, text);
  });
}

// Shorten a text until it fits into this many pixels.
function shortened(made, room) {
  let name = made.textContent;
  while (name.length > 1 && made.getComputedTextLength() > room) {
    name = name.slice(0, -1);
    made.textContent = `${name}…`;
  }
}

function bars(labels, p) {
  const order = p.map((_, k) => k).sort((a, b) => p[b] - p[a]).slice(0, 9);
  const width = cleared(10 + 28 * order.length), left = Math.min(220, 0.4 * width), room = width - left - 70;
  order.forEach((k, place) => {
    const y = 6 + 28 * place;
    drawn("rect", { class: "bar", x: left, y, width: room * p[k], height: 20 });
    shortened(drawn("text", { x: left - 10, y: y + 15, "text-anchor": "end" }, labels[k].slice(0, 60)), left - 12);
    drawn("text", { x: left + 8 + room * p[k], y: y + 15 }, `${shown(100 * p[k], 3)} %`);
  });
}
