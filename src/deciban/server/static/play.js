// Play: points on a plane. The server computes the model; it keeps nothing.

import { post } from "./api.js";
import { lineChart } from "./charts.js";
import { announce, field, h, problem, replace, s, select, table } from "./dom.js";
import { count, number, percent, plural } from "./format.js";
import { VIEW, letter, plane } from "./plane.js";
import { SCENES, scene } from "./scenes.js";

const MODELS = [
  ["centroids", "nearest centroid"],
  ["spheres", "spheres of one size"],
  ["naive_bayes", "naive Bayes"],
  ["linear", "linear discriminant"],
  ["quadratic", "quadratic discriminant"],
];
const MEANS = {
  centroids: "Every class has covariance 1: the nearest mean wins, if the prior is the same.",
  spheres: "All classes share one variance, the same in every direction.",
  naive_bayes: "x and y are independent within a class: ellipses have no tilt.",
  linear: "All classes share one covariance: boundaries are straight lines.",
  quadratic: "Every class has its own covariance: boundaries are conic sections.",
};
const MOST_POINTS = 300;
const LEAVE_ONE_OUT_AFTER = 300; // ms without a change: it takes longer than the rest
const ALPHAS = [0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];

export function render(context) {
  const state = { points: [], classes: 2, model: "linear", prior: null, alpha: 0, components: 1, steps: null, seed: 0, brush: 0, shade: "probability", found: null };
  const past = []; // scenes before each change, for Undo
  const parts = Object.fromEntries(["brushes", "prior", "em", "facts", "numbers", "error"].map((name) => [name, h("div", {})]));
  const readout = h("p", { class: "readout note" });
  let stored = null; // the points before a drag
  const board = plane(() => state.points, { add, move, settle, forget, look });

  // ---------------------------------------------------------------- changes

  function remember(points = state.points) {
    past.push({ points: points.map((point) => [...point]), classes: state.classes });
    if (past.length > 200) past.shift();
    undoButton.disabled = false;
  }

  function changed(points) {
    state.points = points;
    board.drawPoints();
    ask();
  }

  function add(x, y) {
    if (state.points.length >= MOST_POINTS) return announce(`There are ${MOST_POINTS} points already.`);
    remember();
    changed([...state.points, [x, y, state.brush]]);
    return announce(`Added ${letter(state.brush)} at ${number(x, 2)}, ${number(y, 2)}.`);
  }

  function forget(i) {
    remember();
    const [x, y, c] = state.points[i];
    changed(state.points.filter((_, j) => j !== i));
    announce(`Forgot ${letter(c)} at ${number(x, 2)}, ${number(y, 2)}.`);
  }

  function move(i, x, y) {
    stored ??= state.points;
    changed(state.points.map((point, j) => (j === i ? [x, y, point[2]] : point)));
  }

  function settle() {
    if (stored) remember(stored);
    stored = null;
  }

  function setClasses(wanted) {
    if (wanted !== state.classes) state.prior = null; // it has a number for each class
    state.classes = wanted;
    if (state.brush >= wanted) state.brush = 0;
  }

  function undo() {
    const before = past.pop();
    undoButton.disabled = !past.length;
    setClasses(before.classes);
    changed(before.points);
    drawControls();
    announce("Undone.");
  }

  function begin(name) {
    remember();
    const { settings, points } = scene(name);
    Object.assign(state, { prior: null, components: 1, steps: null, seed: 0, brush: 0, ...settings });
    changed(points);
    drawControls();
    announce(`${plural(points.length, "point")}.`);
  }

  // Most labels are hidden; each class keeps its first points.
  function hideLabels() {
    remember();
    const kept = new Map();
    changed(
      state.points.map(([x, y, c]) => {
        kept.set(c, (kept.get(c) ?? 0) + 1);
        return [x, y, kept.get(c) <= 2 ? c : null];
      }),
    );
  }

  // ---------------------------------------------------------------- the server

  let waiting = false;
  let again = false;
  let timer = null;

  // One request at a time; the last state wins.
  async function ask(leaveOneOut = false) {
    clearTimeout(timer);
    if (waiting) {
      again = true;
      return;
    }
    waiting = true;
    board.box.classList.add("waiting");
    const { points, classes, model, prior, alpha, components, steps, seed } = state;
    try {
      const found = await post("v1/play", { points, classes, model, prior, alpha, components, steps, seed, view: VIEW, leave_one_out: leaveOneOut });
      state.found = found;
      replace(parts.error);
      board.drawModel(found, state.shade);
      drawFound();
    } catch (error) {
      replace(parts.error, problem(error));
    }
    waiting = false;
    if (!again) board.box.classList.remove("waiting");
    if (again) {
      again = false;
      ask();
    } else if (!leaveOneOut && state.found && !state.found.em && points.length) {
      timer = setTimeout(() => board.box.isConnected && ask(true), LEAVE_ONE_OUT_AFTER);
    }
  }

  const set = (name, change = (value) => value) => (value) => {
    state[name] = change(value);
    ask();
  };

  // ---------------------------------------------------------------- what is shown

  function look(x, y, i = null) {
    const found = state.found;
    if (!found?.classes.length) return;
    const column = Math.min(VIEW.columns - 1, Math.floor(((x - VIEW.x[0]) / (VIEW.x[1] - VIEW.x[0])) * VIEW.columns));
    const row = Math.min(VIEW.rows - 1, Math.floor(((y - VIEW.y[0]) / (VIEW.y[1] - VIEW.y[0])) * VIEW.rows));
    const shares = found.classes.map((c, k) => `${letter(c)} ${found.grid.probabilities[k][row * VIEW.columns + column]} %`);
    const place = `x ${number(x, 2)}, y ${number(y, 2)}: ${shares.join(", ")}`;
    readout.textContent = place;
    if (board.box === document.activeElement && board.box.matches(":focus-visible")) {
      announce(i === null ? place : `On a point, ${letter(state.points[i][2])}. ${place}`);
    }
  }

  function drawFound() {
    const { found } = state;
    const rows = [
      ["Points", `${count(state.points.length)}${state.points.some((point) => point[2] === null) ? `, ${count(state.points.filter((point) => point[2] === null).length)} without a label` : ""}`],
      ["Accuracy on these points", percent(found.accuracy)],
      found.em ? null : ["Each point left out", found.leave_one_out === null ? "…" : percent(found.leave_one_out)],
      ["Prior", found.classes.map((c, k) => `${letter(c)} ${percent(found.prior[k])}`).join(", ") || "–"],
      found.linear_form?.length === 2 ? ["Log-odds", logOdds(found)] : null,
    ];
    replace(parts.facts, h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
    replace(
      parts.numbers,
      table(
        "Means and covariances",
        ["class", "share", "mean x", "mean y", "var x", "var y", "cov"],
        found.components.map((one) => [letter(one.class), percent(one.share), ...[...one.mean, one.covariance[0][0], one.covariance[1][1], one.covariance[0][1]].map((v) => number(v))]),
        ["share", "mean x", "mean y", "var x", "var y", "cov"],
      ),
    );
    drawEm();
  }

  function drawEm() {
    const { em } = state.found;
    const stepped = (change) => () => {
      state.steps = change(state.found.em?.steps ?? 0);
      ask();
    };
    if (!em) {
      replace(parts.em, h("p", { class: "note" }, "Nothing is hidden, so the model is a sum and needs no steps. Hide labels, or let each class have several components."));
      return;
    }
    // Drawn in place, so that the button that was pressed keeps the focus.
    if (!parts.em.querySelector("button")) {
      replace(
        parts.em,
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", onclick: stepped(() => 0) }, "Start"),
          h("button", { type: "button", onclick: stepped((steps) => Math.min(200, steps + 1)) }, "One step"),
          h("button", { type: "button", onclick: stepped(() => null) }, "To the end"),
          h("button", { type: "button", onclick: () => {
              state.seed += 1;
              ask();
            } }, "Another start"),
        ),
        h("p", { class: "note", "aria-live": "polite" }),
        h("div", {}),
        h("p", { class: "note" }, "Each step raises it, except for small differences: pseudo-points, and a little variance that keeps the ellipse of a single point visible, are not part of it."),
      );
    }
    const [, note, chart] = parts.em.children;
    const last = em.log_likelihood.at(-1);
    note.textContent = `After ${plural(em.steps, "step")}${em.converged ? ", converged" : ""}: log-likelihood ${number(last, 5)}.`;
    replace(
      chart,
      em.steps
        ? lineChart({ series: [{ name: "", colour: 0, points: em.log_likelihood.map((one, i) => [i, one]) }], height: 130, title: "Log-likelihood by step", description: `From ${number(em.log_likelihood[0], 5)} to ${number(last, 5)}.`, xLabel: "steps", formatX: count, formatY: (v) => number(v, 4) })
        : null,
    );
  }

  // ---------------------------------------------------------------- controls

  const undoButton = h("button", { type: "button", onclick: undo, disabled: true }, "Undo");

  function drawControls() {
    const brushes = [...Array(state.classes).keys(), null];
    replace(
      parts.brushes,
      h(
        "fieldset",
        { class: "brushes" },
        h("legend", {}, "New points are"),
        brushes.map((c) =>
          h(
            "label",
            {},
            h("input", { type: "radio", name: "brush", checked: c === state.brush, onchange: () => {
                state.brush = c;
              } }),
            s("svg", { class: "swatch", "aria-hidden": "true" }, s("rect", { class: c === null ? "track" : `c${c}`, width: "100%", height: "100%" })),
            letter(c),
          ),
        ),
      ),
    );
    for (const [name, control] of Object.entries(chosen)) control.value = String(state[name]);
    meaning.textContent = MEANS[state.model];
    drawPrior();
  }

  function drawPrior() {
    const own = h("input", { type: "checkbox", checked: state.prior === null, onchange: () => {
        state.prior = own.checked ? null : Array(state.classes).fill(0.5);
        drawPrior();
        ask();
        parts.prior.querySelector("input").focus();
      } });
    const sliders = (state.prior ?? []).map((share, c) => {
      const slider = h("input", { type: "range", min: 0, max: 1, step: 0.01, value: share, oninput: () => {
          state.prior[c] = Number(slider.value);
          if (state.prior.some((one) => one > 0)) ask();
        } });
      return field(`Prior of ${letter(c)}`, slider);
    });
    replace(parts.prior, h("label", {}, own, " prior from the shares of the points"), sliders);
  }

  const classes = (value) => {
    remember();
    setClasses(Number(value));
    changed(state.points.filter((point) => point[2] === null || point[2] < state.classes));
    drawControls();
  };
  const chosen = {
    model: select(MODELS, state.model, (value) => {
      state.model = value;
      meaning.textContent = MEANS[value];
      ask();
    }),
    classes: select([[2, "two"], [3, "three"], [4, "four"]], 2, classes),
    components: select([[1, "one"], [2, "two"], [3, "three"], [4, "four"]], 1, set("components", Number)),
    shade: select([["probability", "probability of the class"], ["density", "density"]], state.shade, (value) => {
      state.shade = value;
      if (state.found) board.drawModel(state.found, value);
    }),
  };
  const meaning = h("p", { class: "note" }, MEANS[state.model]);
  const alphaField = field("Pseudo-counts", h("input", { type: "range", min: 0, max: ALPHAS.length - 1, step: 1, value: 0, "aria-valuetext": "0", oninput: (event) => {
      state.alpha = ALPHAS[Number(event.target.value)];
      event.target.setAttribute("aria-valuetext", String(state.alpha));
      alphaField.lastChild.textContent = `${state.alpha} pseudo-points for each class`;
      ask();
    } }), "0 pseudo-points for each class");

  // The canvas has its own copy of the colours. The listeners end with the first change after the view was left.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const recolour = () => {
    if (board.box.isConnected) {
      if (state.found) board.drawModel(state.found, state.shade);
      return;
    }
    window.removeEventListener("recoloured", recolour);
    dark.removeEventListener("change", recolour);
  };
  window.addEventListener("recoloured", recolour);
  dark.addEventListener("change", recolour);

  const view = h(
    "div",
    {},
    h("h1", { tabindex: -1 }, "Play"),
    h("p", { class: "note" }, "Click to add a point, click a point to forget it, drag it to move it. The server fits the model each time and stores nothing. Ellipses are at one and two standard deviations."),
    h(
      "div",
      { class: "play" },
      h(
        "div",
        {},
        parts.brushes,
        board.box,
        h("p", { class: "note", id: "plane-keys" }, "Keyboard: arrows move the cursor (Shift: faster), Enter adds a point or forgets the one there, M picks a point up and puts it down."),
        readout,
        parts.error,
        h("details", {}, h("summary", {}, "The numbers"), parts.numbers),
      ),
      h(
        "div",
        { class: "controls" },
        h(
          "section",
          {},
          h("h2", {}, "Points"),
          h("div", { class: "buttons" }, Object.entries(SCENES).map(([name, { title }]) => h("button", { type: "button", onclick: () => begin(name) }, title))),
          h("div", { class: "buttons" }, undoButton, h("button", { type: "button", onclick: hideLabels }, "Hide labels"), h("button", { type: "button", onclick: () => {
              remember();
              changed([]);
            } }, "Forget all")),
          field("Classes", chosen.classes),
        ),
        h("section", {}, h("h2", {}, "Model"), field("Covariances", chosen.model), meaning, field("Components of each class", chosen.components), alphaField, parts.prior),
        h("section", {}, h("h2", {}, "Steps of EM"), parts.em),
        h("section", {}, h("h2", {}, "Result"), parts.facts, field("Shade", chosen.shade)),
      ),
    ),
  );
  begin(Object.keys(SCENES)[0]);
  past.length = 0;
  undoButton.disabled = true;
  return view;
}

// log P(B)/P(A) of a point as a formula.
function logOdds({ classes, linear_form: [one, two] }) {
  const signed = (value) => number(value).replace(/^(?=[^\u2212])/, "+").replace(/^(.)/, "$1 ");
  const [x, y, offset] = ["x", "y", "offset"].map((name) => two[name] - one[name]);
  return `${letter(classes[1])} over ${letter(classes[0])}: ${number(x)} x ${signed(y)} y ${signed(offset)} nats`;
}
