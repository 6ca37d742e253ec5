// A prediction: the answer and what it means, its evidence, and one click to correct it or to undo that.

import { get, modelPath, post } from "./api.js";
import { announce, data, field, h, problem, replace, s, select } from "./dom.js";
import { decibans, meaning, number, odds, percent, plural } from "./format.js";

const MOST_ITEMS = 12; // of evidence, the others summed by the server
const MOST_CLASSES = 8; // with buttons; more are in a list
const MOST_LETTERS = 20_000; // of a text
const WEAK = 0.5; // dB: weaker words are not coloured

// `example` is {text}, {row}, {message} or {message_base64}, as the API takes it.
export function answerPanel(context, example, id, { taught = null, changed = () => {} } = {}) {
  const state = { target: null, against: null, explained: null, before: null, taught, undo: null };
  const box = h("section", { class: "answer", "aria-label": "Prediction" });
  const path = modelPath(context.model.name);

  async function explain() {
    const wanted = state.target === null ? {} : { target: state.target, against: state.against };
    const reply = await post(`${path}/explain`, { ...example, most: MOST_ITEMS, ...wanted });
    state.explained = { ...reply.explanations[0], version: reply.version };
  }

  async function change(action, body) {
    state.before ??= state.explained;
    const reply = await post(`${path}/${action}`, { ...body, id });
    await explain();
    changed();
    return reply.results[0];
  }

  async function teach(label) {
    try {
      const result = await change("correct", { ...example, label });
      if (result.status !== "unchanged") {
        state.undo = result.was === undefined ? ["forget", example] : ["correct", { ...example, label: result.was }];
      }
      state.taught = { label, status: result.status };
      draw();
      announce(`Learned as ${label}.`);
      box.querySelector(".taught button")?.focus();
    } catch (error) {
      draw(error);
    }
  }

  async function undo() {
    const [action, body] = state.undo;
    try {
      const result = await change(action, body);
      state.undo = null;
      state.taught = { label: result.label ?? null, status: result.status };
      draw();
      announce("Undone.");
      box.querySelector(".teach button")?.focus();
    } catch (error) {
      draw(error);
    }
  }

  async function compare(target, against) {
    Object.assign(state, { target, against });
    try {
      await explain();
      draw();
    } catch (error) {
      draw(error);
    }
  }

  function draw(error) {
    replace(
      box,
      verdict(context, state.explained),
      error ? problem(error) : null,
      teaching(context, state, teach, undo),
      state.explained.spans ? colouredText(state.explained, sideColours(context, state.explained)) : null,
      evidenceOf(context, state, compare),
    );
  }

  replace(box, h("p", { class: "note" }, "Computing …"));
  explain().then(
    () => draw(),
    (error) => replace(box, problem(error)),
  );
  return box;
}

function verdict(context, explained) {
  const { label, probabilities } = explained;
  const sorted = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  const unsure = !(String(label) in probabilities);
  const p = unsure ? sorted[0][1] : probabilities[String(label)];
  const shown = sorted.slice(0, MOST_CLASSES);
  const rest = sorted.slice(MOST_CLASSES).reduce((sum, [, one]) => sum + one, 0);
  return h(
    "div",
    { class: "verdict" },
    h(
      "div",
      {},
      h("h2", { class: "label", tabindex: -1 }, data(label)),
      h("p", { class: "probability" }, h("strong", {}, percent(p)), ` for ${unsure ? sorted[0][0] : label}, odds of ${odds(p)}`),
      h("p", { class: "note" }, unsure ? "Neither class is probable enough for an answer. " : "", meaning(p)),
      calibrationNote(context, p),
    ),
    h(
      "ul",
      { class: "bars", "aria-label": "Probability of each class" },
      shown.map(([name, one]) => classBar(context, name, one)),
      sorted.length > MOST_CLASSES ? h("li", {}, h("span", {}, plural(sorted.length - MOST_CLASSES, "other class", "other classes")), shareBar(rest, 5), h("span", { class: "number" }, percent(rest))) : null,
    ),
  );
}

export function classBar(context, name, share, note = percent(share)) {
  return h("li", {}, h("span", {}, data(name)), shareBar(share, context.colour(name)), h("span", { class: "number" }, note));
}

export function shareBar(share, colour) {
  const width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return s("svg", { class: "bar", "aria-hidden": "true" }, s("rect", { class: "track", width: "100%", height: "100%" }), s("rect", { class: `c${colour}`, width, height: "100%" }));
}

// How often predictions of this probability were right here, if examples have shown it.
function calibrationNote(context, p) {
  const note = h("p", { class: "note" });
  get(modelPath(context.model.name, "quality")).then(
    (quality) => {
      const bin = quality.calibration.find((one) => p >= one.from && (p < one.to || one.to === 1));
      if (bin && bin.examples >= 20) {
        const range = `${percent(bin.from, 0)} to ${percent(bin.to, 0)}`;
        note.textContent = `Of ${plural(bin.examples, "example")} learned here that were predicted with ${range}, ${percent(bin.accuracy)} were predicted correctly.`;
      }
    },
    () => {}, // it is only a note
  );
  return note;
}

// ------------------------------------------------------------------ teaching

function teaching(context, state, teach, undo) {
  if (!context.may("teach")) return h("p", { class: "note" }, "Your token does not allow corrections.");
  if (!context.model.learns) return h("p", { class: "note" }, `This model does not learn: ${context.model.why_not}.`);
  const classes = context.model.classes;
  const label = state.explained.label;
  const once = (action) => (event) => {
    for (const button of event.target.closest(".teach, .taught").querySelectorAll("button")) button.disabled = true;
    action();
  };
  const parts = [];
  if (state.before && state.taught) parts.push(comparison(context, state, once(undo)));
  if (!state.undo) {
    const buttons =
      classes.length <= MOST_CLASSES
        ? classes.map((one) => h("button", { type: "button", onclick: once(() => teach(one)), "aria-pressed": String(state.taught?.label === one) }, data(one)))
        : classList(classes, label, teach);
    const known = state.taught && state.taught.label !== null ? `Learned as ${state.taught.label}. ` : "";
    parts.push(h("div", { class: "teach", role: "group", "aria-label": "Teach the right class" }, h("span", {}, `${known}What is it really?`), buttons));
  }
  return parts;
}

function classList(classes, label, teach) {
  const list = select(classes.map((one, i) => [i, String(one)]), Math.max(0, classes.indexOf(label)));
  return [field("Class", list), h("button", { type: "button", onclick: () => teach(classes[Number(list.value)]) }, "Teach")];
}

// What the model predicts before and after, for the classes that changed most.
function comparison(context, state, undo) {
  const [before, after] = [state.before.probabilities, state.explained.probabilities];
  const moved = Object.keys(after)
    .map((name) => [name, before[name] ?? 0, after[name]])
    .sort((a, b) => Math.abs(b[2] - b[1]) - Math.abs(a[2] - a[1]))
    .slice(0, 4);
  const same = moved.every(([, a, b]) => Math.abs(a - b) < 1e-9);
  const { label, status } = state.taught;
  const done = {
    learned: `Learned as ${label}.`,
    corrected: `Corrected to ${label}.`,
    forgotten: "Forgotten: the sums are those of a model that never saw it.",
    unchanged: `It was learned as ${label} already.`,
  };
  return h(
    "div",
    { class: "taught" },
    h("p", {}, h("strong", {}, done[status]), ` Version ${state.before.version} → ${state.explained.version}. `, same ? "The probabilities are the same as before." : ""),
    same
      ? null
      : h(
          "ul",
          { class: "bars two", "aria-label": "Probabilities before and after" },
          moved.map(([name, a, b]) =>
            h("li", {}, h("span", {}, data(name)), h("span", { class: "pair" }, shareBar(a, context.colour(name)), shareBar(b, context.colour(name))), h("span", { class: "number" }, `${percent(a)} → ${percent(b)}`)),
          ),
        ),
    state.undo ? h("button", { type: "button", onclick: undo }, "Undo") : null,
  );
}

// ------------------------------------------------------------------ evidence

function evidenceOf(context, state, compare) {
  const { target, against } = state.explained;
  const classes = context.model.classes;
  const choose = (which) => (value) => {
    const pair = { target, against, [which]: classes[Number(value)] };
    if (String(pair.target) === String(pair.against)) Object.assign(pair, { target: against, against: target });
    compare(pair.target, pair.against);
  };
  const options = classes.map((one, i) => [i, String(one)]);
  const place = (one) => classes.findIndex((other) => String(other) === String(one));
  const picker =
    classes.length > 2
      ? h("div", { class: "filters" }, field("Evidence for", select(options, place(target), choose("target"))), field("over", select(options, place(against), choose("against"))))
      : null;
  return h("div", {}, h("h3", {}, "Evidence for ", data(target), " over ", data(against)), picker, waterfall(state.explained, sideColours(context, state.explained)));
}

const finite = (value) => (typeof value === "number" ? value : value.startsWith("-") ? -1e3 : 1e3);

// Evidence has the colour of the class that it is for; colours repeat if there are many classes.
function sideColours(context, { target, against }) {
  const [one, two] = [context.colour(target), context.colour(against)];
  return [one, one === two ? (two + 1) % 6 : two];
}

// Rows of a table, with a bar from the sum before each item to the sum after it.
function waterfall(explained, [forIt, againstIt]) {
  const steps = [
    { name: "prior odds", value: "", decibans: explained.prior },
    ...explained.evidence,
  ];
  let sum = 0;
  const spans = steps.map((step) => {
    const from = sum;
    sum += finite(step.decibans);
    return [from, sum];
  });
  spans.push([0, finite(explained.total)]);
  const low = Math.min(0, ...spans.flat());
  const high = Math.max(0, ...spans.flat());
  const room = 0.03 * (high - low) || 1;
  const at = (value) => (100 * (value - low + room)) / (high - low + 2 * room);
  const bar = ([from, to], last) =>
    s(
      "svg",
      { class: "step", "aria-hidden": "true" },
      s("line", { class: "zero", x1: `${at(0)}%`, x2: `${at(0)}%`, y1: "0", y2: "100%" }),
      s("rect", { class: last ? "sum" : `c${to >= from ? forIt : againstIt}`, x: `${Math.min(at(from), at(to))}%`, width: `${Math.max(0.4, Math.abs(at(to) - at(from)))}%`, y: "20%", height: "60%", rx: "2" }),
    );
  const row = (name, value, db, span, last) =>
    h("tr", { class: last ? "total" : null }, h("th", { scope: "row" }, data(name), value === "" || value === undefined ? null : h("span", { class: "note" }, " ", data(value))), h("td", { class: "step" }, bar(span, last)), h("td", { class: "number" }, decibans(db)));
  return h(
    "table",
    { class: "waterfall" },
    h("caption", {}, "Each item moves the odds; 10 dB is a factor of ten, 3 dB about two. The sum is the prediction."),
    h("thead", { class: "unseen" }, h("tr", {}, h("th", { scope: "col" }, "Evidence"), h("th", { scope: "col" }, "Sum so far"), h("th", { scope: "col" }, "Decibans"))),
    h(
      "tbody",
      {},
      steps.map((step, i) => row(step.name, shownValue(step, explained), step.decibans, spans[i], false)),
      row("total", `${percent(explained.probability)} for ${explained.target}`, explained.total, spans.at(-1), true),
    ),
  );
}

function shownValue({ value, name }, explained) {
  if (value === null) return "missing";
  if (typeof value === "number") {
    if (!explained.spans) return `= ${number(value, 4)}`;
    return value === 1 ? "" : `${number(value)} times`;
  }
  if (!value || name === "prior odds") return "";
  return explained.spans ? `(${value})` : `= ${value}`;
}

// The text, each word on a background as strong as its evidence. Places count characters, not UTF-16 units.
function colouredText(explained, [forIt, againstIt]) {
  const letters = Array.from(explained.text);
  const parts = [];
  let at = 0;
  for (const span of explained.spans) {
    if (span.start >= MOST_LETTERS) break;
    const db = finite(span.decibans);
    if (Math.abs(db) < WEAK || span.start < at) continue;
    parts.push(letters.slice(at, span.start).join(""));
    const strength = Math.min(5, 1 + Math.floor(Math.abs(db) / 2));
    parts.push(h("mark", { class: `${db > 0 ? `t${forIt}` : `against t${againstIt}`} s${strength}`, title: decibans(span.decibans) }, letters.slice(span.start, span.end).join("")));
    at = span.end;
  }
  parts.push(letters.slice(at, Math.max(at, MOST_LETTERS)).join(""));
  const cut = letters.length > MOST_LETTERS ? `The first ${MOST_LETTERS.toLocaleString("en-GB")} of ${letters.length.toLocaleString("en-GB")} characters. ` : "";
  return h(
    "figure",
    { class: "words" },
    h("figcaption", {}, cut, h("mark", { class: `t${forIt} s3` }, "evidence for"), " ", data(explained.target), ", ", h("mark", { class: `against t${againstIt} s3` }, "evidence for"), " ", data(explained.against)),
    h("div", { class: "text", dir: "auto", tabindex: 0, role: "group", "aria-label": "The text, coloured by evidence" }, parts),
  );
}
