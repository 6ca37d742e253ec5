// Points to begin with. They are drawn the same way each time.

export const SCENES = {
  clouds: { title: "Two clouds", settings: { classes: 2, model: "linear" } },
  tilted: { title: "Tilted", settings: { classes: 2, model: "linear" } },
  inside: { title: "One inside another", settings: { classes: 2, model: "quadratic" } },
  corners: { title: "Corners", settings: { classes: 2, model: "spheres", components: 2 } },
  three: { title: "Three classes", settings: { classes: 3, model: "linear" } },
  few: { title: "Few labels", settings: { classes: 2, model: "quadratic", steps: 0 } },
};

// [class, how many, mean x, mean y, spread x, spread y, tilt], and how many of each keep their label.
const CLOUDS = {
  clouds: [[0, 20, -1.2, -0.6, 0.7, 0.7, 0], [1, 20, 1.2, 0.7, 0.7, 0.7, 0]],
  tilted: [[0, 25, -0.5, 0.6, 1.2, 0.35, 0.6], [1, 25, 0.5, -0.6, 1.2, 0.35, 0.6]],
  inside: [[0, 25, 0, 0, 0.5, 0.5, 0], [1, 35, 0, 0, 1.8, 1.3, 0]],
  corners: [[0, 14, -1.6, 1.2, 0.5, 0.5, 0], [0, 14, 1.6, -1.2, 0.5, 0.5, 0], [1, 14, 1.6, 1.2, 0.5, 0.5, 0], [1, 14, -1.6, -1.2, 0.5, 0.5, 0]],
  three: [[0, 18, -1.8, -0.8, 0.6, 0.6, 0], [1, 18, 1.8, -0.8, 0.6, 0.6, 0], [2, 18, 0, 1.4, 0.6, 0.6, 0]],
  few: [[0, 30, -1.3, 0.3, 0.6, 0.9, 0], [1, 30, 1.3, -0.3, 0.6, 0.9, 0]],
};
const LABELS = { few: 3 };

// Numbers between 0 and 1 (Lehmer's generator), and from them normal ones (Box and Muller).
function generator(seed) {
  let value = seed;
  const uniform = () => {
    value = (value * 48271) % 2147483647;
    return value / 2147483647;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

export function scene(name) {
  const normal = generator(20);
  const round = (value) => Math.round(1000 * value) / 1000;
  const points = CLOUDS[name].flatMap(([c, n, x, y, dx, dy, tilt]) =>
    Array.from({ length: n }, (_, i) => {
      const [a, b] = [dx * normal(), dy * normal()];
      const label = i < (LABELS[name] ?? n) ? c : null;
      return [round(x + a * Math.cos(tilt) - b * Math.sin(tilt)), round(y + a * Math.sin(tilt) + b * Math.cos(tilt)), label];
    }),
  );
  return { settings: SCENES[name].settings, points };
}
