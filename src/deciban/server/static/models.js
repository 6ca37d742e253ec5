// Models: what they are, what they have learned, and when; export and upload for administrators.

import { classBar } from "./answer.js";
import { download, get, modelPath, sendFile } from "./api.js";
import { announce, data, field, h, problem, replace, select, table } from "./dom.js";
import { bytes, count, plural, when } from "./format.js";

const MOST_CLASSES = 12;
const MOST_LINES = 50;

export function render(context) {
  const box = h("div", {}, h("h1", { tabindex: -1 }, "Models"));
  const body = h("div", {}, h("p", { class: "note" }, "Loading …"));
  const load = (note = "") =>
    get("v1/models").then(
      ({ models }) => {
        replace(body, note ? h("p", {}, note) : null, models.map((model) => card(context.about(model), model, load)));
        if (note) announce(note);
      },
      (error) => replace(body, problem(error)),
    );
  load();
  box.append(body);
  return box;
}

const READS = { texts: "texts", mail: "mail", rows: "rows of a table" };
const STORED = { plain: "as it is", encrypted: "encrypted", none: "not stored, only statistics" };

function card(context, model, reload) {
  const total = model.counts.reduce((sum, one) => sum + one, 0);
  const facts = [
    ["Kind", `${model.kind}, reads ${READS[model.takes]}`],
    ["Version", `${count(model.version)} (line of the log)`],
    ["Last changed here", when(model.changed)],
    ["Learned", `${count(total)} in ${plural(model.classes.length, "class", "classes")}; ${plural(model.examples, "example")} in the store`],
    ["Size", model.snapshot ? `${bytes(model.snapshot.bytes)} as a file, saved ${when(model.snapshot.time)} (version ${count(model.snapshot.version)})` : "not saved yet"],
    ["Content of examples", STORED[model.content]],
    ["Learns", model.learns ? "yes" : `no: ${model.why_not}`],
    ["Alarms", model.alarms.length ? h("a", { href: `#/quality/${encodeURIComponent(model.name)}` }, model.alarms.map((alarm) => alarm.code.replace("_", " ")).join(", ")) : "none"],
  ];
  const shown = model.classes.map((name, i) => [name, model.counts[i]]).sort((a, b) => b[1] - a[1]);
  return h(
    "section",
    { class: "model" },
    h("h2", {}, data(model.name)),
    h("div", { class: "beside" },
      h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("div", {},
        h("h3", {}, "Learned by class"),
        h("ul", { class: "bars", "aria-label": "Learned by class" }, shown.slice(0, MOST_CLASSES).map(([name, weight]) => classBar(context, name, total ? weight / total : 0, count(weight)))),
        shown.length > MOST_CLASSES ? h("p", { class: "note" }, `and ${plural(shown.length - MOST_CLASSES, "more class", "more classes")}`) : null,
      ),
    ),
    context.may("admin") ? administration(model, reload) : null,
  );
}

// ------------------------------------------------------------------ for administrators

function administration(model, reload) {
  const message = h("div", {});
  const attempt = (work) => async (event) => {
    event.preventDefault();
    replace(message, h("p", { class: "note" }, "Working …"));
    try {
      replace(message, h("p", { role: "status" }, await work()));
    } catch (error) {
      replace(message, problem(error));
    }
  };
  const save = attempt(async () => {
    const address = URL.createObjectURL(await download(modelPath(model.name, "file")));
    h("a", { href: address, download: `${model.name}.deciban` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    return "Exported.";
  });
  const file = h("input", { type: "file", accept: ".deciban", required: true });
  const ways = select([["", "the store has none"], ["contained", "the file has learned them (an exported file has)"], ["learn", "the file must learn them"]], model.examples ? "contained" : "");
  const upload = attempt(async () => {
    const query = ways.value ? `?examples=${ways.value}` : "";
    const reply = await sendFile("PUT", `${modelPath(model.name, "file")}${query}`, file.files[0]);
    await reload(`${model.name} is replaced: version ${reply.version}.`);
    return "";
  });
  const log = h("details", { ontoggle: () => log.open && lines(model, log) }, h("summary", {}, "Changes"), h("div", {}));
  return h(
    "div",
    { class: "administration" },
    h("button", { type: "button", onclick: save }, "Export the model file"),
    h(
      "details",
      {},
      h("summary", {}, "Replace the model"),
      h("form", { onsubmit: upload }, h("div", { class: "form" }, field("Model file", file), field(`The ${plural(model.examples, "example")} of the store`, ways)), h("button", {}, "Replace")),
    ),
    log,
    message,
  );
}

async function lines(model, details) {
  const body = details.lastChild;
  try {
    const query = new URLSearchParams({ after: Math.max(-1, model.version - MOST_LINES), most: MOST_LINES });
    const { log } = await get(`${modelPath(model.name, "log")}?${query}`);
    const rows = log.reverse().map((line) => [count(line.seq), when(line.time), line.kind, data(line.actor), line.id === null ? "" : data(line.id)]);
    replace(body, table(`Changes of ${model.name}, without content`, ["version", "time", "change", "by", "id"], rows, ["version"]));
  } catch (error) {
    replace(body, problem(error));
  }
}
