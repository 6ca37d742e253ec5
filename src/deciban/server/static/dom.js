// Elements from JavaScript. Text is always a text node, never markup: whatever a message contains is shown, not run.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in PROPERTIES) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

// Set as properties: as attributes they would only be defaults.
const PROPERTIES = { value: 1, checked: 1, disabled: 1, selected: 1, hidden: 1, textContent: 1 };

export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

export const h = (tag, properties, ...children) => filled(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => filled(document.createElementNS(SVG, tag), properties, children);

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Data of unknown direction: isolated, so that it cannot reorder what is around it.
export const data = (text) => h("bdi", {}, String(text));

let announcements = 0;

// For screen readers. A repeated sentence is announced again.
export function announce(sentence) {
  announcements += 1;
  document.getElementById("announcer").textContent = sentence + (announcements % 2 ? "" : "\u00a0");
}

// A picture that is drawn again if its width changes.
export function responsive(draw, properties = {}) {
  const box = h("div", { class: "figure", ...properties });
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== width) {
      width = box.clientWidth;
      replace(box, draw(width));
    }
  }).observe(box);
  return box;
}

let labels = 0;

// A control with its label.
export function field(label, control, hint) {
  labels += 1;
  control.id ||= `field-${labels}`;
  const note = hint ? h("span", { class: "note", id: `hint-${labels}` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

export function select(options, chosen, change) {
  const made = options.map(([value, text]) => h("option", { value, selected: String(value) === String(chosen) }, text));
  return h("select", { onchange: (event) => change?.(event.target.value) }, made);
}

// A table. Rows are lists of cells; columns named in `right` hold numbers, and those without a name hold bars.
export function table(caption, head, rows, right = []) {
  const kind = (i) => (right.includes(head[i]) ? "number" : null);
  const cells = (row) =>
    row.map((cell, i) => (i ? h("td", { class: kind(i) }, cell) : h("th", { scope: "row", class: kind(i) }, cell)));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((name, i) => h("th", { scope: "col", class: kind(i) }, name.trim() ? name : h("span", { class: "unseen" }, "as a bar"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))),
    ),
  );
}

export const problem = (error) => h("p", { class: "problem", role: "alert" }, String(error.message ?? error));
