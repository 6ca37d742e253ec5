// Quality over time: every example is predicted before it is learned.

import { shareBar } from "./answer.js";
import { get, modelPath } from "./api.js";
import { calibrationChart, lineChart } from "./charts.js";
import { data, h, problem, replace, table } from "./dom.js";
import { clock, count, number, percent, plural } from "./format.js";

const shareTick = (v) => `${number(100 * v)}\u00a0%`;
const CHARTS = [
  { name: "accuracy", title: "Accuracy", format: shareTick, share: true, note: "Share of predictions that were correct." },
  { name: "log_loss", title: "Log loss", format: (v) => number(v), note: "Mean of −log P(true class), in nats: lower is better, and confident mistakes cost most." },
  { name: "calibration_error", title: "Calibration error", format: shareTick, share: true, note: "Mean distance between probability and frequency." },
  { name: "log_density", title: "Log density", format: (v) => number(v), note: "Mean of log p(x): if it falls, examples are unlike those learned (drift)." },
];

export function render(context) {
  const box = h("div", {}, h("h1", { tabindex: -1 }, "Quality of ", data(context.model.name)));
  const body = h("div", {}, h("p", { class: "note" }, "Loading …"));
  box.append(body);
  get(modelPath(context.model.name, "quality")).then(
    (quality) => replace(body, ...parts(context, quality)),
    (error) => replace(body, problem(error)),
  );
  return box;
}

function parts(context, quality) {
  const alarms = alarmList(quality.alarms, quality.examples);
  const shares = sharesOf(context, quality);
  if (!quality.examples) {
    return [alarms, h("p", {}, "No example of a known class has been learned here yet. Each one is predicted before it is learned, and these predictions are shown here."), shares];
  }
  let learned = 0;
  const ends = quality.over_time.map((part) => (learned += part.examples));
  const base = quality.examples - learned;
  const x = ends.map((end) => base + end);
  return [
    alarms,
    figures(quality),
    h("h2", {}, "Over time"),
    h("div", { class: "charts" }, CHARTS.map((chart) => chartOf(chart, quality, x)), shareChart(context, quality, x)),
    h("details", {}, h("summary", {}, "The numbers"), timeTable(quality)),
    h("h2", {}, "By class"),
    table(
      "Recall is the share of a class that is recognised, precision the share of its predictions that are correct.",
      ["class", "examples", "recall", "precision", "log loss"],
      Object.entries(quality.by_class).map(([name, one]) => [data(name), count(one.examples), percent(one.recall), percent(one.precision), number(one.log_loss)]),
      ["examples", "recall", "precision", "log loss"],
    ),
    shares,
    h("h2", {}, "Calibration"),
    h("p", { class: "note" }, "Dots on the line: of the predictions with 80 %, 80 % are correct. Larger dots: more predictions."),
    calibrationChart(quality.calibration, { title: "Calibration", description: quality.calibration.map((bin) => `${percent(bin.probability)} predicted, ${percent(bin.accuracy)} correct, ${plural(bin.examples, "example")}`).join("; ") }),
    h("details", {}, h("summary", {}, "The numbers"), calibrationTable(quality)),
  ];
}

function alarmList(alarms, examples) {
  if (!alarms.length) return h("p", { class: "calm" }, examples < 400 ? "No alarm. Alarms compare the last 200 learned examples with those before, so they need at least 400." : "No alarm.");
  return h("ul", { class: "alarms", "aria-label": "Alarms" }, alarms.map((alarm) => h("li", { class: "alarm" }, h("strong", {}, alarm.code.replace("_", " ")), " ", alarm.message)));
}

function figures({ overall, recent, examples }) {
  const pairs = [
    ["Accuracy", percent(recent.accuracy), percent(overall.accuracy)],
    ["Log loss", number(recent.log_loss), number(overall.log_loss)],
    ["Calibration error", percent(recent.calibration_error), percent(overall.calibration_error)],
  ];
  return h(
    "dl",
    { class: "figures" },
    pairs.map(([name, now, all]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("b", {}, now), h("span", {}, `last ${count(recent.examples)}; ${all} over ${count(examples)}`)))),
  );
}

function chartOf({ name, title, format, share, note }, quality, x) {
  const values = quality.over_time.map((part) => part[name]);
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  // Shares are between 0 and 1, and rounded to tenths, so that small changes do not look large.
  const limits = [Math.floor(10 * Math.min(...known) - 0.01) / 10, Math.ceil(10 * Math.max(...known) + 0.01) / 10];
  const chart = lineChart({
    series: [{ name: title, colour: 0, points: values.map((value, i) => [x[i], value]) }],
    yLimits: share ? [Math.max(0, limits[0]), Math.min(1, limits[1])] : undefined,
    title: `${title} over time`,
    description: `From ${format(values[0])} to ${format(values.at(-1))} over ${plural(x.length, "part")}.`,
    xLabel: "examples learned",
    formatX: count,
    formatY: format,
  });
  return h("figure", { class: "card" }, h("h3", {}, title), chart, h("figcaption", {}, note));
}

function shareChart(context, quality, x) {
  const names = Object.keys(quality.by_class).slice(0, 6);
  const series = names.map((name) => ({ name, colour: context.colour(name), points: quality.over_time.map((part, i) => [x[i], part.shares[name] ?? 0]) }));
  const chart = lineChart({ series, yLimits: [0, 1], title: "Class shares over time", description: names.join(", "), xLabel: "examples learned", formatX: count, formatY: shareTick });
  return h("figure", { class: "card" }, h("h3", {}, "Class shares"), chart, h("figcaption", {}, "Share of each class among the examples that were learned."));
}

function timeTable(quality) {
  const rows = quality.over_time.map((part) => [clock(part.time), count(part.examples), percent(part.accuracy), number(part.log_loss), percent(part.calibration_error), number(part.log_density)]);
  return table("Consecutive parts of the window", ["until", "examples", "accuracy", "log loss", "calibration error", "log density"], rows, ["examples", "accuracy", "log loss", "calibration error", "log density"]);
}

function calibrationTable(quality) {
  const rows = quality.calibration.map((bin) => [`${percent(bin.from, 0)} to ${percent(bin.to, 0)}`, count(bin.examples), percent(bin.probability), percent(bin.accuracy)]);
  return table("Predictions by their probability", ["probability", "examples", "mean", "correct"], rows, ["examples", "mean", "correct"]);
}

function sharesOf(context, { shares }) {
  const rows = Object.entries(shares.classes);
  const caption = shares.requests
    ? `Learned, and in the last ${plural(shares.requests, "request")} (estimated from their probabilities)`
    : "Learned; there were no requests yet";
  return [
    h("h2", {}, "Class shares"),
    table(
      caption,
      ["class", "learned", "", "requests", " "],
      rows.map(([name, one]) => [data(name), percent(one.learned), shareBar(one.learned, context.colour(name)), percent(one.requests), one.requests === null ? "" : shareBar(one.requests, context.colour(name))]),
      ["learned", "requests"],
    ),
  ];
}
