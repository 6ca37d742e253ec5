// Try: a text, a row or a file, and what the model predicts.

import { answerPanel } from "./answer.js";
import { base64, modelPath, post, sendFile } from "./api.js";
import { announce, data, field, h, problem, replace, table } from "./dom.js";
import { count, percent, plural, shortened } from "./format.js";

const MOST_CHOICES = 60; // categories in a list; a field with suggestions has more
const OTHER = "\u0000other";

export function render(context) {
  const result = h("div", { class: "result" });
  const input = context.model.takes === "rows" ? rowForm(context, ask) : textForm(context, ask);

  async function ask(example) {
    replace(result, h("p", { class: "note" }, "Computing …"));
    try {
      const reply = await post(modelPath(context.model.name, "predict"), example);
      const { id, label, probability } = reply.predictions[0];
      announce(`${label}, ${percent(probability)}`);
      replace(result, answerPanel(context, example, id));
    } catch (error) {
      replace(result, problem(error));
    }
  }

  async function askFile(file) {
    replace(result, h("p", { class: "note" }, `Reading ${file.name} …`));
    try {
      const path = `${modelPath(context.model.name, "read")}?name=${encodeURIComponent(file.name)}`;
      const found = await sendFile("POST", path, file);
      if (found.examples.length === 1) await ask(withoutLabel(found.examples[0]));
      else replace(result, await severalAnswers(context, found));
    } catch (error) {
      replace(result, problem(error));
    }
  }

  return h(
    "div",
    { class: "try" },
    h("h1", { tabindex: -1 }, "Try ", data(context.model.name)),
    dropZone(h("div", { class: "input" }, input, fileChooser(askFile)), askFile),
    result,
  );
}

const withoutLabel = ({ label, ...example }) => example;

// ------------------------------------------------------------------ input

function textForm(context, ask) {
  const mail = context.model.takes === "mail";
  const text = h("textarea", { rows: 7, spellcheck: "false", dir: "auto", required: true });
  const submit = (event) => {
    event.preventDefault();
    if (!text.value) return;
    // A mail is bytes: what was pasted is sent as UTF-8.
    ask(mail ? { message_base64: base64(new TextEncoder().encode(text.value)) } : { text: text.value.toWellFormed() });
  };
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  });
  return h(
    "form",
    { onsubmit: submit },
    field(mail ? "A mail, with its header if you have it" : "A text", text),
    h("button", { class: "main" }, "Classify"),
    h("span", { class: "note keys" }, "Ctrl + Enter"),
  );
}

function rowForm(context, ask) {
  const fields = context.model.columns.map((column) => [column, cell(column)]);
  const submit = (event) => {
    event.preventDefault();
    const row = {};
    for (const [column, control] of fields) {
      const value = control.read();
      if (value !== null) row[column.name] = value;
    }
    if (!Object.keys(row).length) row[context.model.columns[0].name] = null; // all are missing
    ask({ row });
  };
  return h(
    "form",
    { onsubmit: submit },
    h("p", { class: "note" }, "Leave a field empty if its value is missing."),
    h("div", { class: "form" }, fields.map(([, control]) => control.element)),
    h("button", { class: "main" }, "Classify"),
  );
}

// A control for a column: a list of its categories, a number, or a text.
function cell({ name, kind, values }) {
  if (values && values.length <= MOST_CHOICES) return choice(name, values);
  if (kind === "text") {
    const text = h("textarea", { rows: 3, dir: "auto" });
    return { element: field(name, text, "text"), read: () => text.value || null };
  }
  const isNumber = kind === null || kind === "number" || kind === "count";
  const input = h("input", { type: isNumber ? "number" : "text", step: "any", dir: "auto", autocomplete: "off" });
  if (values) {
    const list = h("datalist", { id: `values-${Math.random().toString(36).slice(2)}` }, values.slice(0, 1000).map((value) => h("option", { value })));
    input.setAttribute("list", list.id);
    const element = field(name, input, kind);
    element.append(list);
    return { element, read: () => input.value || null };
  }
  const hint = kind === "date" ? "date, as in 2026-03-31" : (kind ?? "number");
  const read = () => (input.value === "" ? null : isNumber ? Number(input.value) : input.value);
  return { element: field(name, input, hint), read };
}

function choice(name, values) {
  const other = h("input", { type: "text", hidden: true, "aria-label": `${name}: another value`, autocomplete: "off", dir: "auto" });
  const list = h(
    "select",
    { onchange: () => {
        other.hidden = list.value !== OTHER;
        if (!other.hidden) other.focus();
      } },
    h("option", { value: "" }, "missing"),
    values.map((value, i) => h("option", { value: i }, String(value))),
    h("option", { value: OTHER }, "another value …"),
  );
  const element = field(name, list, "category");
  element.append(other);
  const read = () => (list.value === "" ? null : list.value === OTHER ? other.value || null : values[Number(list.value)]);
  return { element, read };
}

// ------------------------------------------------------------------ files

function fileChooser(askFile) {
  const input = h("input", { type: "file", onchange: () => input.files.length && askFile(input.files[0]) });
  return h("div", { class: "file" }, field("Or a file: CSV, JSON lines, mail or text", input, "You can also drop it here."));
}

function dropZone(element, askFile) {
  const over = (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    element.classList.toggle("over", event.type === "dragover");
  };
  element.addEventListener("dragover", over);
  element.addEventListener("dragleave", over);
  element.addEventListener("drop", (event) => {
    over(event);
    if (event.dataTransfer.files.length) askFile(event.dataTransfer.files[0]);
  });
  return element;
}

// A table of predictions for the rows of a file; each row can be opened.
async function severalAnswers(context, found) {
  const path = modelPath(context.model.name);
  const examples = found.examples.map(withoutLabel);
  const { predictions } = await post(`${path}/predict`, { examples });
  const labelled = found.examples.filter((one) => one.label !== undefined);
  const evaluation = labelled.length ? await post(`${path}/evaluate`, { examples: labelled }) : null;
  const opened = h("div", { class: "opened" });
  const open = (i) => {
    const panel = answerPanel(context, examples[i], predictions[i].id);
    replace(opened, h("h2", { tabindex: -1 }, `Row ${i + 1}`), panel);
    opened.firstChild.focus();
  };
  const rows = predictions.map((one, i) => {
    const label = found.examples[i].label;
    return [
      h("button", { type: "button", class: "link", onclick: () => open(i), "aria-label": `Row ${i + 1}: open` }, count(i + 1)),
      data(one.label),
      percent(one.probability),
      ...(labelled.length ? [label === undefined ? "" : h("span", { class: String(label) === String(one.label) ? null : "wrong" }, data(label))] : []),
      data(shortened(contentOf(examples[i]), 90)),
    ];
  });
  const notes = [
    found.more ? `Only the first ${plural(examples.length, "row")}.` : null,
    found.ignored.length ? `Not used: ${found.ignored.join(", ")}.` : null,
    evaluation ? `${plural(evaluation.examples, "row")} with a label: accuracy ${percent(evaluation.accuracy)}, log loss ${evaluation.log_loss.toFixed(3)} nats. If the model has learned them, this is too optimistic.` : null,
  ];
  announce(plural(predictions.length, "prediction"));
  return h(
    "div",
    {},
    h("h2", {}, plural(predictions.length, "prediction")),
    notes.filter(Boolean).map((note) => h("p", { class: "note" }, note)),
    table("Predictions", ["row", "prediction", "probability", ...(labelled.length ? ["label"] : []), "content"], rows, ["row", "probability"]),
    opened,
  );
}

// An example as one line.
export function contentOf(example) {
  if (!example) return "";
  if (example.row) {
    const cells = Object.entries(example.row).filter(([, value]) => value !== null);
    return cells.map(([name, value]) => `${name} ${value}`).join(", ");
  }
  return example.text ?? subjectOf(example.message ?? "");
}

// The subject of a mail, or its beginning.
function subjectOf(message) {
  const found = /^subject:[ \t]*(.*)$/im.exec(message.slice(0, 20_000));
  return found ? found[1] : message;
}
