// Recent decisions, those worth labelling first.

import { answerPanel } from "./answer.js";
import { get, modelPath } from "./api.js";
import { announce, data, field, h, problem, replace, select } from "./dom.js";
import { clock, percent, plural, shortened } from "./format.js";
import { contentOf } from "./try.js";

const MOST = 100;

export function render(context) {
  const wanted = { order: "unsure", label: "", untaught: "true", models: context.model.name };
  const list = h("div", {});
  const box = h("div", {}, h("h1", { tabindex: -1 }, "Recent decisions"));
  if (!context.may("teach")) {
    box.append(h("p", {}, "Your token does not allow you to see decisions: that needs the scope teach."));
    return box;
  }
  const change = (name) => (value) => {
    wanted[name] = value;
    load();
  };
  const models = context.models.map((one) => [one.name, one.name]);
  const answers = context.model.answers.map((one) => [String(one), String(one)]);
  box.append(
    h(
      "div",
      { class: "filters" },
      field("Order", select([["unsure", "unsure first"], ["newest", "newest first"]], wanted.order, change("order"))),
      field("Prediction", select([["", "any"], ...answers], "", change("label"))),
      field("Labels", select([["true", "not labelled yet"], ["false", "all"]], "true", change("untaught"))),
      models.length > 1 ? field("Model", select([...models, ["", "all models"]], wanted.models, change("models"))) : null,
      h("button", { type: "button", onclick: load }, "Reload"),
    ),
    h("p", { class: "note" }, "Decisions about which the model is unsure teach it most. They are kept only in memory, until the server stops."),
    list,
  );

  let loads = 0;

  async function load() {
    loads += 1;
    const asked = loads;
    const query = new URLSearchParams({ most: MOST, order: wanted.order, untaught: wanted.untaught });
    if (wanted.label) query.set("label", wanted.label);
    const names = wanted.models ? [wanted.models] : context.models.map((one) => one.name);
    try {
      const replies = await Promise.all(names.map((name) => get(`${modelPath(name, "recent")}?${query}`)));
      const found = replies.flatMap((reply) => reply.decisions.map((one) => ({ ...one, model: reply.model })));
      if (asked !== loads) return; // another filter was chosen since
      found.sort(wanted.order === "unsure" ? (a, b) => a.margin - b.margin : (a, b) => b.time - a.time);
      draw(found, names.length > 1);
    } catch (error) {
      replace(list, problem(error));
    }
  }

  function draw(found, several) {
    announce(plural(found.length, "decision"));
    replace(
      list,
      found.length
        ? h("ol", { class: "decisions" }, found.map((one) => decision(context, one, several)))
        : h("p", {}, "There are none. Predictions appear here, those of programs and those of this page."),
    );
  }

  load();
  return box;
}

function decision(context, one, several) {
  const opened = h("div", { class: "opened" });
  const toggle = async () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return replace(opened);
    try {
      const path = modelPath(one.model, `recent/${encodeURIComponent(one.id)}`);
      const [whole, model] = await Promise.all([get(path), get(modelPath(one.model))]);
      if (whole.decision.content === null) throw new Error("Its content is not kept: it is too long, or the server keeps none.");
      const taught = whole.decision.taught === null ? null : { label: whole.decision.taught, status: "unchanged" };
      replace(opened, answerPanel(context.about(model), whole.decision.content, one.id, { taught, changed: () => mark.replaceChildren("changed now") }));
    } catch (error) {
      replace(opened, problem(error));
    }
    return undefined;
  };
  const mark = h("span", { class: "note" }, one.taught === null ? "" : ["labelled ", data(one.taught)]);
  const button = h(
    "button",
    { type: "button", class: "decision", "aria-expanded": "false", onclick: toggle },
    h("span", { class: "label" }, data(one.label)),
    h("span", { class: "number" }, percent(one.probability)),
    h("span", { class: "content", dir: "auto" }, one.content ? shortened(contentOf(one.content)) : h("em", {}, "content not kept")),
    h("span", { class: "note" }, several ? [data(one.model), " · "] : null, clock(one.time)),
    mark,
  );
  return h("li", {}, button, opened);
}
