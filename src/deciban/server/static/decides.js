// What decides: the importance of columns or words, and the strongest evidence for each class.

import { get, modelPath } from "./api.js";
import { curveChart } from "./charts.js";
import { data, h, problem, replace, s, table } from "./dom.js";
import { count, decibans, number, plural } from "./format.js";

const MOST_ITEMS = 30;
const MOST_EVIDENCE = 15;
const MOST_CLASSES = 12;

export function render(context) {
  const path = modelPath(context.model.name);
  const importance = section("Importance", "On average over rows: how much evidence each item contributes.");
  const evidence = section("Strongest evidence for each class", "Words or values that move the odds most towards a class.");
  get(`${path}/importance?most=${MOST_ITEMS}`).then(
    (found) => replace(importance.body, ...importanceOf(context, found)),
    (error) => replace(importance.body, error.code === "no_importance" ? h("p", {}, "This model has none stored: it is computed when a table or texts are learned by fit.") : problem(error)),
  );
  get(`${path}/evidence?most=${MOST_EVIDENCE}`).then(
    (found) => replace(evidence.body, evidenceOf(context, found.evidence)),
    (error) => replace(evidence.body, problem(error)),
  );
  return h("div", {}, h("h1", { tabindex: -1 }, "What decides in ", data(context.model.name)), importance.element, evidence.element);
}

function section(title, note) {
  const body = h("div", {}, h("p", { class: "note" }, "Loading …"));
  return { body, element: h("section", {}, h("h2", {}, title), h("p", { class: "note" }, note), body) };
}

function bar(share, kind) {
  return s("svg", { class: "bar", "aria-hidden": "true" }, s("rect", { class: kind, width: `${Math.max(0.5, 100 * share)}%`, height: "100%" }));
}

function importanceOf(context, found) {
  const most = Math.max(...found.items.map((item) => item.size), 1e-9);
  const curve = h("div", { class: "curve" });
  const curves = new Map(found.curves.map((one) => [one.name, one]));
  const open = (name) => replace(curve, curveOf(context, found, curves.get(name)));
  const rows = found.items.map((item) => [
    curves.get(item.name)?.points.length > 1
      ? h("button", { type: "button", class: "link", onclick: () => open(item.name) }, data(item.name))
      : data(item.name),
    `${item.size.toFixed(2)} dB`,
    bar(item.size / most, item.decibans >= 0 ? "c0" : "c1"),
    decibans(item.decibans),
    count(item.rows),
  ]);
  const first = found.items.find((item) => curves.get(item.name)?.points.length > 1);
  if (first) open(first.name);
  const pairs = found.pairs.map((pair) => h("li", {}, data(pair.first), " and ", data(pair.second), ` act together (${number(pair.decibans, 2)} dB).`));
  return [
    h("p", { class: "note" }, `Computed when the model was trained, over ${plural(found.rows, "row")} ${found.how}. A positive mean is evidence for the true class.`),
    h("div", { class: first ? "beside" : null }, table(`Importance by ${found.what}`, [found.what, "mean |dB|", "", "mean dB", "rows"], rows, ["mean |dB|", "mean dB", "rows"]), curve),
    pairs.length ? h("ul", {}, pairs) : null,
  ];
}

function curveOf(context, found, curve) {
  const sides = found.sides.map((side) => [side, context.colour(side)]);
  const legend = sides.map(([name, colour]) => h("span", { class: "key" }, s("svg", { class: "swatch", "aria-hidden": "true" }, s("rect", { class: `c${colour}`, width: "100%", height: "100%" })), " ", data(name)));
  const chart = curveChart(curve.points, sides, {
    title: `Evidence of ${curve.name} by value`,
    description: `${plural(curve.points.length, "value")}`,
    formatX: (value) => number(value),
    formatY: (value) => `${number(value, 2)} dB`,
  });
  const rows = curve.points.map((point) => [data(point.value), ...point.decibans.map(decibans), count(point.rows)]);
  return h(
    "figure",
    { class: "card" },
    h("h3", {}, "Evidence of ", data(curve.name), " by value"),
    chart,
    h("figcaption", {}, "Evidence for ", legend, sides.length > 1 ? " over the others." : " over the other class.", " Larger dots: more rows."),
    h("details", {}, h("summary", {}, "The numbers"), table(`Evidence of ${curve.name}`, ["value", ...found.sides.map(String), "rows"], rows, [...found.sides.map(String), "rows"])),
  );
}

function evidenceOf(context, items) {
  const byClass = new Map();
  for (const item of items) {
    const label = String(item.class ?? item.component);
    byClass.set(label, [...(byClass.get(label) ?? []), item]);
  }
  if (!byClass.size) return h("p", {}, "There is none yet.");
  const most = Math.max(...items.map((item) => (typeof item.decibans === "number" ? item.decibans : 0)), 1e-9);
  return h(
    "div",
    { class: "columns" },
    [...byClass].slice(0, MOST_CLASSES).map(([label, own]) =>
      h(
        "section",
        { class: "card" },
        h("h3", {}, data(label)),
        h(
          "ul",
          { class: "bars wide", "aria-label": `Evidence for ${label}` },
          own.map((item) => h("li", {}, h("span", {}, data(item.item)), bar(typeof item.decibans === "number" ? item.decibans / most : 1, `c${context.colour(label)}`), h("span", { class: "number" }, decibans(item.decibans)))),
        ),
      ),
    ),
  );
}
