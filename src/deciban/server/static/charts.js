// Small charts as SVG. Each has a title and a description, and its numbers are in a table next to it.

import { h, responsive, s } from "./dom.js";

const HEIGHT = 200;
const MARGIN = { left: 52, right: 22, top: 12, bottom: 34 };

// Round numbers between two limits, about `wanted` of them.
export function ticks(low, high, wanted = 4) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) out.push(i * step + 0); // + 0: never −0
  return out;
}

function frame({ title, description, width, height = HEIGHT, x, y, xLabel, formatX = String, formatY = String, xTicks }) {
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const px = (value) => MARGIN.left + ((value - x[0]) / (x[1] - x[0] || 1)) * (right - MARGIN.left);
  const py = (value) => bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (bottom - MARGIN.top);
  const name = `chart-${Math.random().toString(36).slice(2)}`;
  const picture = s(
    "svg",
    { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": `${name}-t ${name}-d` },
    s("title", { id: `${name}-t` }, title),
    s("desc", { id: `${name}-d` }, description),
    ticks(...y).map((value) => [
      s("line", { class: "grid", x1: MARGIN.left, x2: right, y1: py(value), y2: py(value) }),
      s("text", { x: MARGIN.left - 8, y: py(value) + 4, "text-anchor": "end" }, formatY(value)),
    ]),
    (xTicks ?? ticks(x[0], x[1], width < 420 ? 3 : 6)).map((value) => s("text", { x: px(value), y: bottom + 16, "text-anchor": "middle" }, formatX(value))),
    s("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    xLabel ? s("text", { class: "label", x: (MARGIN.left + right) / 2, y: height - 3, "text-anchor": "middle" }, xLabel) : null,
  );
  return { picture, px, py };
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Lines of one figure over time: series are {name, colour, points: [[x, y]]}; y may be null where there is none.
export function lineChart({ series, yLimits, ...settings }) {
  const shown = series.map((one) => ({ ...one, points: one.points.filter((point) => point[1] !== null) }));
  const all = shown.flatMap((one) => one.points);
  if (!all.length) return h("p", { class: "note" }, "No figures yet.");
  const xs = all.map((point) => point[0]);
  const ys = all.map((point) => point[1]);
  const [low, high] = yLimits ?? padded(Math.min(...ys), Math.max(...ys));
  const draw = (width) => {
    const { picture, px, py } = frame({ ...settings, width, x: [Math.min(...xs, 0), Math.max(...xs)], y: [low, high] });
    for (const { name, colour, points } of shown) {
      const placed = points.map(([x, y]) => [px(x), py(y)]);
      picture.append(s("path", { class: `line k${colour}`, d: path(placed) }));
      for (const [x, y] of placed) picture.append(s("circle", { class: `c${colour}`, cx: x, cy: y, r: placed.length > 30 ? 1.8 : 2.8 }));
      if (shown.length > 1 && placed.length) {
        const [x, y] = placed.at(-1);
        picture.append(s("text", { class: "name", x, y: y - 7, "text-anchor": "end" }, name.slice(0, 24)));
      }
    }
    return picture;
  };
  return responsive(draw);
}

function padded(low, high) {
  const room = 0.08 * (high - low) || Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// Predicted against observed: dots on the diagonal are calibrated.
export function calibrationChart(bins, settings) {
  const most = Math.max(...bins.map((bin) => bin.examples));
  const shown = (value) => `${Math.round(100 * value)} %`;
  const draw = (width) => {
    const { picture, px, py } = frame({ ...settings, width, height: Math.min(320, Math.max(220, width * 0.6)), x: [0, 1], y: [0, 1], formatX: shown, formatY: shown, xLabel: "probability of the prediction" });
    picture.append(s("line", { class: "diagonal", x1: px(0), y1: py(0), x2: px(1), y2: py(1) }));
    for (const bin of bins) {
      picture.append(s("circle", { class: "dot", cx: px(bin.probability), cy: py(bin.accuracy), r: 3 + 9 * Math.sqrt(bin.examples / most) }));
    }
    return picture;
  };
  return responsive(draw);
}

// The evidence of a column by value: a line for numbers, dots for categories. Sides are [name, colour].
export function curveChart(points, sides, settings) {
  const numbers = points.filter((point) => point.at !== null);
  const used = numbers.length ? numbers : points;
  const x = used.map((point, i) => (numbers.length ? point.at : i));
  const ys = used.flatMap((point) => point.decibans);
  const limits = padded(Math.min(0, ...ys), Math.max(0, ...ys));
  const most = Math.max(...used.map((point) => point.rows));
  const span = x.length > 1 ? [Math.min(...x), Math.max(...x)] : [x[0] - 1, x[0] + 1];
  if (!numbers.length) span.splice(0, 2, -0.5, used.length - 0.5);
  const draw = (width) => {
    const room = Math.max(4, Math.floor(width / used.length / 9));
    const named = numbers.length ? {} : { xTicks: x, formatX: (i) => used[i].value.slice(0, room) };
    const { picture, px, py } = frame({ ...settings, ...named, width, x: span, y: limits });
    picture.append(s("line", { class: "axis", x1: px(span[0]), x2: px(span[1]), y1: py(0), y2: py(0) }));
    sides.forEach(([, colour], side) => {
      const placed = used.map((point, i) => [px(x[i]), py(point.decibans[side])]);
      if (numbers.length) picture.append(s("path", { class: `line k${colour}`, d: path(placed) }));
      placed.forEach(([cx, cy], i) => picture.append(s("circle", { class: `c${colour}`, cx, cy, r: 2 + 5 * Math.sqrt(used[i].rows / most) })));
    });
    return picture;
  };
  return responsive(draw);
}
