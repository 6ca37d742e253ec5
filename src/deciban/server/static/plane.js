// The plane of Play: what the server computed, drawn, and what a pointer or the keyboard does to points.

import { h, replace, s } from "./dom.js";

export const VIEW = { x: [-4, 4], y: [-3, 3], columns: 80, rows: 60 };
const NEAR = 0.16; // how close to a point a click must be, on the plane
const MOVED = 0.06; // a shorter drag is a click
const STEP = 0.1; // of the arrow keys
const LETTERS = ["A", "B", "C", "D"];
export const letter = (c) => LETTERS[c] ?? "no label";

const limited = (value, [low, high]) => Math.min(high, Math.max(low, value));
const rounded = (value) => Math.round(1000 * value) / 1000;

// `actions` are add(x, y), move(i, x, y), settle(), forget(i) and look(x, y); `points()` returns [[x, y, class], …].
export function plane(points, actions) {
  const canvas = h("canvas", { width: VIEW.columns, height: VIEW.rows });
  const picture = s("svg", { viewBox: `${VIEW.x[0]} ${-VIEW.y[1]} ${VIEW.x[1] - VIEW.x[0]} ${VIEW.y[1] - VIEW.y[0]}`, "aria-hidden": "true" });
  const layers = { model: s("g", {}), points: s("g", {}), cursor: s("g", { class: "cursor" }) };
  picture.append(...Object.values(layers));
  const box = h(
    "div",
    { class: "plane", tabindex: 0, role: "application", "aria-roledescription": "plane", "aria-label": "Points on a plane", "aria-describedby": "plane-keys" },
    canvas,
    picture,
  );
  const at = { x: 0, y: 0 }; // of the keyboard's cursor
  let held = null; // {i, x, y, moved} while a point is dragged, or carried by the keyboard

  function nearest(x, y) {
    let best = [NEAR, null];
    points().forEach((point, i) => {
      const distance = Math.hypot(point[0] - x, point[1] - y);
      if (distance <= best[0]) best = [distance, i];
    });
    return best[1];
  }

  function placeOf(event) {
    const frame = box.getBoundingClientRect();
    const x = VIEW.x[0] + ((event.clientX - frame.left) / frame.width) * (VIEW.x[1] - VIEW.x[0]);
    const y = VIEW.y[1] - ((event.clientY - frame.top) / frame.height) * (VIEW.y[1] - VIEW.y[0]);
    return [rounded(limited(x, VIEW.x)), rounded(limited(y, VIEW.y))];
  }

  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = placeOf(event);
    held = { i: nearest(x, y), x, y, moved: false, pointer: event.pointerId };
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const [x, y] = placeOf(event);
    actions.look(x, y);
    if (held?.pointer !== event.pointerId || held.i === null) return;
    held.moved ||= Math.hypot(x - held.x, y - held.y) > MOVED;
    if (held.moved) actions.move(held.i, x, y);
  });
  box.addEventListener("pointerup", (event) => {
    if (held?.pointer !== event.pointerId) return;
    const { i, x, y, moved } = held;
    held = null;
    if (moved) actions.settle();
    else if (i === null) actions.add(x, y);
    else actions.forget(i);
  });
  box.addEventListener("pointercancel", () => {
    held = null;
    actions.settle();
  });

  box.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (way) {
      const step = event.shiftKey ? 5 * STEP : STEP;
      at.x = rounded(limited(at.x + step * way[0], VIEW.x));
      at.y = rounded(limited(at.y + step * way[1], VIEW.y));
      if (held) actions.move(held.i, at.x, at.y);
      actions.look(at.x, at.y, nearest(at.x, at.y));
    } else if (event.key === "Enter" || event.key === " ") {
      const i = nearest(at.x, at.y);
      if (held) drop();
      else if (i === null) actions.add(at.x, at.y);
      else actions.forget(i);
    } else if (event.key.toLowerCase() === "m") {
      const i = nearest(at.x, at.y);
      if (held) drop();
      else if (i !== null) held = { i };
    } else return;
    event.preventDefault();
    drawCursor();
  });
  box.addEventListener("blur", () => held && held.pointer === undefined && drop());

  function drop() {
    held = null;
    actions.settle();
  }

  function drawCursor() {
    const r = held ? 0.2 : 0.14;
    replace(
      layers.cursor,
      s("circle", { cx: at.x, cy: -at.y, r, "vector-effect": "non-scaling-stroke" }),
      s("path", { d: `M${at.x - 0.25} ${-at.y}h.5M${at.x} ${-at.y - 0.25}v.5`, "vector-effect": "non-scaling-stroke" }),
    );
  }
  drawCursor();

  function drawPoints() {
    replace(
      layers.points,
      points().map(([x, y, c]) =>
        c === null
          ? s("circle", { class: "point hidden", cx: x, cy: -y, r: 0.06, "vector-effect": "non-scaling-stroke" })
          : s("path", { class: `point c${c}`, d: mark(c, x, -y), "vector-effect": "non-scaling-stroke" }),
      ),
    );
  }

  function drawModel(found, shade) {
    drawGrid(canvas, found, shade);
    const boundary = found.boundary.map(([a, b, c, d]) => `M${a} ${-b}L${c} ${-d}`).join("");
    replace(
      layers.model,
      boundary ? s("path", { class: "boundary", d: boundary, "vector-effect": "non-scaling-stroke" }) : null,
      found.components.flatMap((one) => [1, 2].map((size) => ellipse(one, size))),
    );
  }

  return { box, drawPoints, drawModel };
}

// A shape for each class, so that colour is not needed: circle, square, triangle, diamond.
function mark(c, x, y) {
  const r = 0.085;
  if (c === 0) return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  const corners = { 1: [[-1, -1], [1, -1], [1, 1], [-1, 1]], 2: [[0, -1.3], [1.15, 0.9], [-1.15, 0.9]], 3: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]] }[c];
  const size = c === 1 ? 0.85 * r : r;
  return `M${corners.map(([dx, dy]) => `${x + size * dx} ${y + size * dy}`).join("L")}z`;
}

function ellipse({ class: c, mean, half_axes: [a, b], angle }, size) {
  const turn = `translate(${mean[0]} ${-mean[1]}) rotate(${-angle})`;
  return s("ellipse", { class: `ellipse k${c}${size > 1 ? " two" : ""}`, rx: size * a, ry: size * b, transform: turn, "vector-effect": "non-scaling-stroke" });
}

// Cells in the colours of their classes, mixed by probability; `shade` is what makes them stronger.
function drawGrid(canvas, { classes, grid }, shade) {
  const drawing = canvas.getContext("2d");
  const image = drawing.createImageData(VIEW.columns, VIEW.rows);
  const colours = classes.map((c) => colourOf(canvas, c));
  for (let row = 0; grid.density.length && row < VIEW.rows; row += 1) {
    for (let column = 0; column < VIEW.columns; column += 1) {
      const from = row * VIEW.columns + column;
      const to = 4 * ((VIEW.rows - 1 - row) * VIEW.columns + column);
      for (let part = 0; part < 3; part += 1) {
        image.data[to + part] = colours.reduce((sum, colour, k) => sum + (grid.probabilities[k][from] / 100) * colour[part], 0);
      }
      image.data[to + 3] = 255 * (shade === "density" ? 0.75 * (grid.density[from] / 100) ** 0.6 : 0.3);
    }
  }
  drawing.putImageData(image, 0, 0);
}

// A colour of the style sheet as numbers: painted and read back, whatever notation the browser computes.
function colourOf(element, c) {
  const probe = s("svg", { class: "unseen" }, s("rect", { class: `c${c}` }));
  element.after(probe);
  const { fill } = getComputedStyle(probe.firstChild);
  probe.remove();
  const one = new OffscreenCanvas(1, 1).getContext("2d");
  one.fillStyle = fill;
  one.fillRect(0, 0, 1, 1);
  return one.getImageData(0, 0, 1, 1).data;
}
