// The page: views by address (#/view/model), sign-in, choice of a model, light and dark.

import { get, hasToken, keepToken, modelPath } from "./api.js";
import { announce, data, field, h, problem, replace, select } from "./dom.js";
import * as decides from "./decides.js";
import * as models from "./models.js";
import * as play from "./play.js";
import * as quality from "./quality.js";
import * as recent from "./recent.js";
import * as attempt from "./try.js";

const VIEWS = {
  try: { title: "Try", render: attempt.render },
  recent: { title: "Recent", render: recent.render },
  quality: { title: "Quality", render: quality.render },
  decides: { title: "What decides", render: decides.render },
  models: { title: "Models", render: models.render },
  play: { title: "Play", render: play.render },
};
const COLOURS = 6;
const THEMES = ["auto", "light", "dark"];
const main = document.getElementById("main");

let server = null; // {me, models}
let first = true; // the first view does not take the focus

function address() {
  try {
    const [, view, model] = location.hash.split("/").map(decodeURIComponent);
    return { view: Object.hasOwn(VIEWS, view) ? view : "try", model };
  } catch {
    return { view: "try" }; // an address that is not one of ours
  }
}

const addressOf = (view, model) => `#/${view}/${encodeURIComponent(model)}`;

// What a view needs: the model, its colours, and what the caller may do.
function contextOf(model) {
  const places = new Map(model.classes.map((name, i) => [String(name), i % COLOURS]));
  return {
    model,
    models: server.models,
    colour: (name) => places.get(String(name)) ?? COLOURS - 1,
    may: (scope) => server.me.scopes.includes(scope),
    about: contextOf, // the same for another model
  };
}

async function show() {
  const wanted = location.hash;
  if (server === null && !(await connect())) return;
  const { view, model } = address();
  const chosen = server.models.find((one) => one.name === model) ?? server.models[0];
  navigation(view, chosen.name);
  document.title = `${VIEWS[view].title} – deciban`;
  try {
    const context = contextOf(await get(modelPath(chosen.name)));
    if (location.hash !== wanted) return; // another view was chosen before this one was there
    replace(main, VIEWS[view].render(context));
  } catch (error) {
    if (error.status === 401) return;
    failed(error);
  }
  if (!first) (main.querySelector("h1") ?? main).focus();
  first = false;
}

async function connect() {
  try {
    const [me, list] = await Promise.all([get("v1/me"), get("v1/models")]);
    server = { me, models: list.models };
    return true;
  } catch (error) {
    if (error.status !== 401) failed(error);
    return false;
  }
}

const failed = (error) => replace(main, problem(error), h("button", { type: "button", onclick: show }, "Try again"));

function navigation(view, model) {
  replace(
    document.getElementById("views"),
    h("ul", {}, Object.entries(VIEWS).map(([name, { title }]) => h("li", {}, h("a", { href: addressOf(name, model), "aria-current": name === view ? "page" : null }, title)))),
  );
  const names = server.models.map((one) => [one.name, one.name]);
  const choose = (name) => {
    location.hash = addressOf(address().view, name);
  };
  replace(
    document.getElementById("tools"),
    names.length > 1 ? field("Model", select(names, model, choose)) : null,
    field("Colours", select(THEMES.map((one) => [one, one]), localStorage.getItem("deciban-theme") ?? "auto", theme)),
    hasToken() ? h("button", { type: "button", onclick: () => signOut() }, "Sign out") : null,
  );
}

// ------------------------------------------------------------------ sign-in

function signOut(message) {
  keepToken(null);
  server = null;
  replace(document.getElementById("views"));
  replace(document.getElementById("tools"));
  const token = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    const given = token.value.trim();
    if (!/^[!-~]+$/.test(given)) return signOut("This is not a token: tokens have only Latin letters, digits and signs.");
    keepToken(given);
    return show();
  };
  document.title = "Sign in – deciban";
  replace(
    main,
    h(
      "form",
      { class: "sign-in", onsubmit: submit },
      h("h1", {}, "Sign in"),
      message ? problem(message) : null,
      field("Token", token, ["Made by ", h("code", {}, "deciban token create"), ". It is kept until you close this tab, and is sent only to this server."]),
      h("button", { class: "main" }, "Sign in"),
    ),
  );
  token.focus();
}

window.addEventListener("signed-out", (event) => {
  const given = hasToken();
  if (!given && main.querySelector(".sign-in")) return; // another request was refused at the same time
  signOut(given ? "The token is unknown, or was revoked." : "");
  if (given) announce(event.detail);
});

// ------------------------------------------------------------------ colours

function theme(chosen) {
  if (chosen === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", chosen);
  localStorage.setItem("deciban-theme", chosen);
  window.dispatchEvent(new Event("recoloured"));
}

if (THEMES.includes(localStorage.getItem("deciban-theme"))) theme(localStorage.getItem("deciban-theme"));
window.addEventListener("hashchange", show);
// A file that is dropped next to its place must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
show();
