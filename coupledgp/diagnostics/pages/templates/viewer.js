// The viewer of a scene: controls, readings, and the picture that stays where WebGL does not work.
function decoded(scene) {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  const shares = (text) => Float32Array.from(new Uint16Array(bytes(text)), (step) => step / 65534);
  const values = (layer) => Float32Array.from(new Uint16Array(bytes(layer.values)), (step) =>
    step === 65535 ? NaN : layer.low + (step / 65534) * (layer.high - layer.low));
  const sensors = scene.sensors && { ...scene.sensors, positions: shares(scene.sensors.positions) };
  if (sensors) sensors.count = sensors.positions.length / 3;
  return {
    ...scene, sensors, positions: shares(scene.positions),
    cells: scene.wide ? new Uint32Array(bytes(scene.cells)) : new Uint16Array(bytes(scene.cells)),
    layers: scene.frames ? decodedFrames({ ...scene, sensors }, bytes) : scene.layers.map((layer) => ({ ...layer, values: values(layer) })),
  };
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// A quantity with its value, and its unit if the title ends with one: `mean 61.2 mph`.
function stated(title, value) {
  const [name, ...unit] = title.split(", ");
  return [name, shortNumber(value), ...unit].join(" ");
}

function shortNumber(value) {
  return value === null || Number.isNaN(value) ? "no value" : String(Number(value.toPrecision(4)));
}

class Viewer {
  constructor(figure, scene) {
    this.scene = decoded(scene);
    this.canvas = element("canvas", { tabIndex: 0 });
    this.drawing = new Drawing(this.canvas, this.scene);
    this.layer = 0;
    // Many sensors would hide the law when times are played.
    const s = this.scene;
    this.with_sensors = !(s.frames && s.sensors && (s.sensors.count > 100 || 6 * s.sensors.count > s.positions.length));
    this.picked = null;
    this.clock = null;
    this.dress(figure);
    this.measure();
    this.reset();
    this.listen();
    this.choose(0);
    if (this.scene.frames) {
      this.clock = new Clock(this, this.scene.frames);
      this.canvas.after(this.clock.root);
      this.reading.after(this.clock.chart);
    }
  }

  // The parts of the viewer; texts are set as texts, whatever names hold.
  dress(figure) {
    const s = this.scene, group = "quantity-" + figure.id;
    const layers = s.layers.map((layer, i) => {
      const input = element("input", { type: "radio", name: group, checked: i === 0 });
      input.addEventListener("change", () => this.choose(i));
      return element("label", {}, input, element("span", { textContent: layer.title }));
    });
    const button = (text, label, act) => {
      const made = element("button", { type: "button", textContent: text, title: label, ariaLabel: label });
      made.addEventListener("click", act);
      return made;
    };
    const tools = element("div", { className: "tools" }, element("div", { className: "choice", role: "radiogroup", ariaLabel: "Quantity" }, ...layers));
    if (s.sensors) {
      const input = element("input", { type: "checkbox", checked: this.with_sensors });
      input.addEventListener("change", () => { this.with_sensors = input.checked; this.draw(); });
      tools.append(element("label", { className: "check" }, input, " sensors"));
    }
    tools.append(element("span", { className: "buttons" },
      button("+", "Zoom in", () => this.zoom(1.3)), button("\u2212", "Zoom out", () => this.zoom(1 / 1.3)), button("Save view", "Save this view as PNG", () => this.save()), button("Reset", "Show the whole", () => { this.reset(); this.draw(); })));
    const verb = s.flat ? "move" : "turn", keys = `arrows ${verb}, + and \u2212 zoom, 0 resets` + (s.sensors ? ", N is the next sensor" : "") + (s.frames ? ", space plays, comma and full stop step" : "");
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", figure.querySelector("figcaption").textContent + ` Interactive view. Keys: ${keys}.`);
    this.reading = element("output", { className: "reading" });
    this.reading.setAttribute("aria-live", "polite");
    const notes = [s.note, s.sensors && s.sensors.note].filter(Boolean).join(" ");
    this.idle = `Drag to ${verb}, click for a value, then scroll or pinch to zoom. Keys: ${keys}. ${notes}`;
    this.bar = element("div", { className: "bar" });
    this.bar_mark = element("i", {});
    this.bar_texts = ["", "", ""].map(() => element("span", {}));
    this.bar_note = element("p", { className: "bar-note" });
    const scale = element("div", { className: "scale" }, this.bar, element("div", { className: "ticks" }, ...this.bar_texts), this.bar_note);
    this.bar.append(this.bar_mark);
    this.root = element("div", { className: "viewer" }, tools, this.canvas, scale, this.reading);
    figure.querySelector(".drawing").before(this.root);
    figure.classList.add("live");
  }

  // New values of the same quantity.
  refresh() {
    this.drawing.show(this.layer);
    this.read();
    this.draw();
  }

  choose(number) {
    const layer = this.scene.layers[number], step = (share) => layer.from + share * (layer.to - layer.from);
    this.layer = number;
    this.drawing.show(number);
    this.bar.style.backgroundImage = `linear-gradient(to right, ${layer.colours.join(", ")})`;
    this.bar_texts.forEach((text, i) => { text.textContent = shortNumber(step(i / 2)); });
    this.bar_note.textContent = layer.note;
    this.read();
    this.draw();
  }

  measure() {
    const box = this.canvas.getBoundingClientRect(), ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.width = Math.max(1, Math.round(box.width * ratio));
    this.canvas.height = Math.max(1, Math.round(box.height * ratio));
    const p = this.scene.positions, low = [1, 1, 1], high = [0, 0, 0];
    for (let i = 0; i < p.length; i++) { low[i % 3] = Math.min(low[i % 3], p[i]); high[i % 3] = Math.max(high[i % 3], p[i]); }
    const centre = low.map((value, k) => (value + high[k]) / 2);
    let radius = 1e-6;
    for (let i = 0; i < p.length; i += 3) radius = Math.max(radius, Math.hypot(p[i] - centre[0], p[i + 1] - centre[1], p[i + 2] - centre[2]));
    const { width, height } = this.canvas, fit = 0.94;
    const home = this.scene.flat
      ? fit * Math.min(width / Math.max(high[0] - low[0], 1e-6), height / Math.max(high[1] - low[1], 1e-6))
      : fit * Math.min(width, height) / (2 * radius);
    const share = this.camera ? this.camera.zoom / this.camera.home : 1;
    this.camera = { ...this.camera, width, height, ratio, centre, home, zoom: share * home };
  }

  reset() {
    [this.azimuth, this.elevation] = this.scene.flat ? [-90, 90] : this.scene.view;
    Object.assign(this.camera, { zoom: this.camera.home, shift: [0, 0] });
    this.turn(0, 0);
  }

  turn(by_azimuth, by_elevation) {
    this.azimuth += by_azimuth;
    this.elevation = Math.max(-90, Math.min(90, this.elevation + by_elevation));
    const a = (this.azimuth * Math.PI) / 180, e = (this.elevation * Math.PI) / 180;
    const right = [-Math.sin(a), Math.cos(a), 0], to = [Math.cos(a) * Math.cos(e), Math.sin(a) * Math.cos(e), Math.sin(e)];
    const up = [to[1] * right[2] - to[2] * right[1], to[2] * right[0] - to[0] * right[2], to[0] * right[1] - to[1] * right[0]];
    this.camera.rows = [right, up, to];
    this.camera.turn = new Float32Array([0, 1, 2].flatMap((k) => [right[k], up[k], to[k]]));
  }

  zoom(factor, at) {
    const c = this.camera, before = c.zoom;
    c.zoom = Math.min(Math.max(c.zoom * factor, 0.5 * c.home), 60 * c.home);
    const point = at || [0, 0], grown = c.zoom / before;
    c.shift = c.shift.map((value, k) => point[k] - grown * (point[k] - value));
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.drawing.draw(this.camera, this.picked, this.with_sensors);
    });
  }

  save() {
    this.drawing.draw(this.camera, this.picked, this.with_sensors);
    this.canvas.toBlob((blob) => save("view.png", blob), "image/png");
  }

  // Pixels from the middle of the canvas, upwards, and depth towards the eye, of place i.
  seen(places, i) {
    const { rows, centre, zoom, shift } = this.camera, d = [0, 1, 2].map((k) => places[3 * i + k] - centre[k]);
    const along = (row) => row[0] * d[0] + row[1] * d[1] + row[2] * d[2];
    return [along(rows[0]) * zoom + shift[0], along(rows[1]) * zoom + shift[1], along(rows[2])];
  }

  listen() {
    const canvas = this.canvas, fingers = new Map();
    let moved = 0;
    const place = (event) => {
      const box = canvas.getBoundingClientRect(), ratio = this.camera.ratio;
      return [(event.clientX - box.left - box.width / 2) * ratio, (box.top + box.height / 2 - event.clientY) * ratio];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, place(event));
      moved = fingers.size > 1 ? Infinity : 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event), last = fingers.get(event.pointerId);
      if (!last) return;
      const by = [now[0] - last[0], now[1] - last[1]];
      moved += Math.hypot(...by);
      if (fingers.size > 1) {
        const other = [...fingers].find(([id]) => id !== event.pointerId)[1], gap = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
        this.camera.shift = this.camera.shift.map((value, k) => value + by[k] / 2);
        this.zoom(gap(now) / gap(last), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
      } else if (this.scene.flat || event.shiftKey) this.camera.shift = this.camera.shift.map((value, k) => value + by[k]);
      else this.turn((-by[0] / this.camera.height) * 180, (-by[1] / this.camera.height) * 180);
      fingers.set(event.pointerId, now);
      this.draw();
    });
    const end = (event) => {
      if (event.type === "pointerup" && moved < 6 * this.camera.ratio && fingers.size === 1) this.pick(place(event));
      fingers.delete(event.pointerId);
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas) return;
      event.preventDefault();
      this.zoom(Math.exp(-0.0015 * event.deltaY), place(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => { this.measure(); this.draw(); }).observe(canvas);
    canvas.addEventListener("webglcontextlost", () => canvas.closest("figure").classList.remove("live"));
  }

  key(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }, by = arrows[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.clock && this.clock.key(event.key)) { event.preventDefault(); return; }
    if (by && this.scene.flat) this.camera.shift = this.camera.shift.map((value, k) => value - 40 * by[k]);
    else if (by) this.turn(8 * by[0], 8 * by[1]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.reset();
    else if ("nNpP".includes(event.key) && this.scene.sensors) {
      const n = this.scene.sensors.count, last = this.picked && this.picked.kind === "sensor" ? this.picked.number : -1;
      this.go((last + ("nN".includes(event.key) ? 1 : n - 1) + n) % n);
    } else if (event.key === "Escape") { this.picked = null; this.asked(); } else return;
    event.preventDefault();
    this.draw();
  }

  // Pick a sensor and turn it towards the eye.
  go(number) {
    if (!this.scene.flat) {
      const d = [0, 1, 2].map((k) => this.scene.sensors.positions[3 * number + k] - this.camera.centre[k]), degrees = 180 / Math.PI;
      this.azimuth = Math.atan2(d[1], d[0]) * degrees;
      this.elevation = Math.atan2(d[2], Math.hypot(d[0], d[1])) * degrees;
      this.turn(0, 0);
    }
    this.picked = this.at_sensor(number);
    this.asked();
  }

  // Say what is known of the picked place, and chart it over all times.
  asked() {
    this.read();
    if (!this.clock) return;
    const found = this.picked, sensor = found && found.kind === "sensor" ? found.number : this.sensor_of(found);
    this.clock.draw(found && found.kind === "sensor" ? found.below : found, sensor);
  }

  // The sensor at a picked node; null if there is none.
  sensor_of(found) {
    const s = this.scene;
    if (!found || found.kind !== "node" || !s.sensors) return null;
    const same = (i) => [0, 1, 2].every((k) => s.sensors.positions[3 * i + k] === s.positions[3 * found.number + k]);
    for (let i = 0; i < s.sensors.count; i++) if (same(i)) return i;
    return null;
  }

  // A sensor, and the surface, line or node where it is.
  at_sensor(number) {
    const place = this.seen(this.scene.sensors.positions, number), below = picked(this, place);
    return { kind: "sensor", number, below: below && (this.scene.flat || Math.abs(below.depth - place[2]) < 0.03) ? below : null };
  }

  pick(at) {
    const surface = picked(this, at), sensor = this.with_sensors && this.scene.sensors ? nearest(this, this.scene.sensors.positions, at, surface ? surface.depth : -Infinity) : null;
    this.picked = sensor === null ? surface : this.at_sensor(sensor);
    this.asked();
    this.draw();
  }

  // What is known of the picked place, in words.
  read() {
    const s = this.scene, found = this.picked, parts = [];
    this.bar_mark.hidden = true;
    if (!found) { this.reading.textContent = this.idle; return; }
    let value = NaN;
    if (found.kind === "sensor") {
      parts.push(s.sensors.names[found.number] || `sensor ${found.number + 1}`);
      const given = (layer) => s.sensors.values[layer.name], seen = (layer) => (given(layer) && given(layer).now) || given(layer);
      for (const layer of s.layers) {
        const values = seen(layer);
        if (values && Number.isNaN(values[found.number])) parts.push("no value at this time");
        else if (values && values[found.number] !== null) parts.push(`${s.sensors.labels[layer.name] || layer.title} ${shortNumber(values[found.number])}`);
      }
      const values = seen(s.layers[this.layer]);
      value = values ? values[found.number] : NaN;
    } else if (s.names[found.number]) parts.push(s.names[found.number]);
    const below = found.kind === "sensor" ? found.below : found;
    for (const layer of below ? s.layers : []) {
      const here = below.value(layer);
      if (!Number.isNaN(here)) parts.push(stated(layer.title, here));
    }
    if (below && (value === null || Number.isNaN(value))) value = below.value(s.layers[this.layer]);
    this.reading.textContent = parts.join(" \u00b7 ");
    if (value === null || Number.isNaN(value)) return;
    const layer = s.layers[this.layer], share = (value - layer.from) / (layer.to - layer.from || 1);
    this.bar_mark.hidden = false;
    this.bar_mark.style.left = `${100 * Math.min(1, Math.max(0, share))}%`;
  }
}

// The face, line or node at a point of the canvas, with its value of a layer; null beside it.
function picked(viewer, at) {
  const s = viewer.scene;
  if (s.kind === "points") {
    const number = nearest(viewer, s.positions, at, -Infinity);
    return number === null ? null : { kind: "node", number, depth: -Infinity, value: (layer) => layer.values[number], over: (one) => one(number) };
  }
  const n = s.positions.length / 3, places = new Float32Array(3 * n);
  for (let i = 0; i < n; i++) places.set(viewer.seen(s.positions, i), 3 * i);
  const corner = (i) => places.subarray(3 * i, 3 * i + 3);
  return s.kind === "lines" ? pickedLine(s, corner, at, 9 * viewer.camera.ratio) : pickedFace(s, corner, at);
}

function pickedFace(s, corner, at) {
  let best = null;
  for (let f = 0; f < s.cells.length / 3; f++) {
    const [i, j, k] = s.cells.subarray(3 * f, 3 * f + 3), a = corner(i), b = corner(j), c = corner(k);
    const area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    const v = ((at[0] - a[0]) * (c[1] - a[1]) - (at[1] - a[1]) * (c[0] - a[0])) / area, w = ((b[0] - a[0]) * (at[1] - a[1]) - (b[1] - a[1]) * (at[0] - a[0])) / area, u = 1 - v - w;
    if (!(u >= 0 && v >= 0 && w >= 0)) continue;
    const depth = u * a[2] + v * b[2] + w * c[2];
    if (best === null || depth > best.depth)
      best = {
        kind: "face", number: f, depth, value: (layer) => (s.at_cells ? layer.values[f] : u * layer.values[i] + v * layer.values[j] + w * layer.values[k]),
        over: (one) => { const [p, q, r] = [i, j, k].map(one); return p.map((value, t) => u * value + v * q[t] + w * r[t]); },
      };
  }
  return best;
}

function pickedLine(s, corner, at, reach) {
  let best = null, least = reach;
  for (let l = 0; l < s.cells.length / 2; l++) {
    const a = corner(s.cells[2 * l]), b = corner(s.cells[2 * l + 1]), d = [b[0] - a[0], b[1] - a[1]], square = d[0] * d[0] + d[1] * d[1];
    const t = square > 0 ? Math.min(1, Math.max(0, ((at[0] - a[0]) * d[0] + (at[1] - a[1]) * d[1]) / square)) : 0;
    const gap = Math.hypot(a[0] + t * d[0] - at[0], a[1] + t * d[1] - at[1]);
    if (gap < least) { least = gap; best = { kind: "line", number: l, depth: -Infinity, value: (layer) => layer.values[l], over: (one) => one(l) }; }
  }
  return best;
}

// The number of the place nearest to a point of the canvas that no surface hides; null if far.
function nearest(viewer, places, at, depth) {
  let best = null, least = 11 * viewer.camera.ratio;
  for (let i = 0; i < places.length / 3; i++) {
    const p = viewer.seen(places, i), gap = Math.hypot(p[0] - at[0], p[1] - at[1]);
    if (gap < least && p[2] > depth - 0.03) { least = gap; best = i; }
  }
  return best;
}

for (const source of document.querySelectorAll("script.scene")) {
  const figure = source.closest("figure");
  try {
    new Viewer(figure, JSON.parse(source.textContent));
  } catch (error) {  // the picture stays
    figure.classList.remove("live");
    figure.querySelectorAll(".viewer").forEach((one) => one.remove());
  }
}
