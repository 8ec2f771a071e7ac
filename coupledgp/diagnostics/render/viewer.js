// Drawing of a scene with WebGL: triangles, lines of some pixels, and round points.
class Drawing {
  constructor(canvas, scene) {
    const gl = canvas.getContext("webgl", { antialias: true, alpha: true, premultipliedAlpha: true });
    if (!gl) throw new Error("no WebGL");
    this.gl = gl;
    this.canvas = canvas;
    this.scene = scene;
    this.faces = this.program(FACES_VERTEX, FACES_FRAGMENT);
    this.lines = this.program(LINES_VERTEX, LINES_FRAGMENT);
    this.points = this.program(POINTS_VERTEX, POINTS_FRAGMENT);
    this.buffers = {};
    this.palettes = scene.layers.map((layer) => this.palette(layer.colours));
    this.geometry();
  }

  program(vertex, fragment) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    return program;
  }

  palette(colours) {
    const gl = this.gl, texture = gl.createTexture(), n = 256, bytes = new Uint8Array(4 * n);
    for (let i = 0; i < n; i++) bytes.set([...colourAt(colours, i / (n - 1)), 255], 4 * i);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, n, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    for (const [name, value] of [["MIN_FILTER", "LINEAR"], ["MAG_FILTER", "LINEAR"], ["WRAP_S", "CLAMP_TO_EDGE"], ["WRAP_T", "CLAMP_TO_EDGE"]])
      gl.texParameteri(gl.TEXTURE_2D, gl["TEXTURE_" + name], gl[value]);
    return texture;
  }

  buffer(name, values) {
    const gl = this.gl;
    if (!this.buffers[name]) this.buffers[name] = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
  }

  // Corners, normals and ends of lines; values follow in `show`.
  geometry() {
    const s = this.scene, p = s.positions, c = s.cells;
    if (s.kind === "faces") {
      const corners = new Float32Array(3 * c.length);
      for (let i = 0; i < c.length; i++) for (let k = 0; k < 3; k++) corners[3 * i + k] = p[3 * c[i] + k];
      this.buffer("corners", corners);
      this.buffer("normals", normalsOf(corners, s));
    } else {
      this.n_lines = c.length / 2;
      const from = new Float32Array(18 * this.n_lines), to = new Float32Array(18 * this.n_lines), side = new Float32Array(12 * this.n_lines);
      const quad = [0, -1, 1, -1, 0, 1, 0, 1, 1, -1, 1, 1];
      for (let i = 0; i < this.n_lines; i++) {
        side.set(quad, 12 * i);
        for (let j = 0; j < 6; j++) for (let k = 0; k < 3; k++) {
          from[18 * i + 3 * j + k] = p[3 * c[2 * i] + k];
          to[18 * i + 3 * j + k] = p[3 * c[2 * i + 1] + k];
        }
      }
      this.buffer("from", from);
      this.buffer("to", to);
      this.buffer("side", side);
      if (s.kind === "points") this.buffer("nodes", p);
    }
    if (s.sensors) this.buffer("sensors", s.sensors.positions);
  }

  // Values of a quantity as shares of its colour scale; below zero there is none.
  show(number) {
    const s = this.scene, layer = s.layers[number], span = layer.to - layer.from || 1;
    this.current = number;
    const share = (value) => (value === null || Number.isNaN(value) ? -1 : Math.min(1, Math.max(0, (value - layer.from) / span)));
    const shares = Float32Array.from(layer.values, share), c = s.cells;
    if (s.kind === "faces") {
      const at = (i) => (s.at_cells ? Math.floor(i / 3) : c[i]);
      this.buffer("shares", Float32Array.from(c, (_, i) => shares[at(i)]));
    } else {
      const one = s.kind === "lines" ? (i) => shares[Math.floor(i / 6)] : () => -1;
      this.buffer("shares", Float32Array.from({ length: 6 * this.n_lines }, (_, i) => one(i)));
      if (s.kind === "points") this.buffer("node_shares", shares);
    }
    if (s.sensors) {
      const values = s.sensors.values[layer.name];
      this.buffer("sensor_shares", Float32Array.from({ length: s.sensors.count }, (_, i) => (values ? share(values[i]) : -1)));
    }
  }

  attribute(program, name, buffer, size) {
    const gl = this.gl, place = gl.getAttribLocation(program, name);
    if (place < 0) return;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[buffer]);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, gl.FLOAT, false, 0, 0);
  }

  use(program, camera, extra) {
    const gl = this.gl, u = (name) => gl.getUniformLocation(program, name);
    gl.useProgram(program);
    gl.bindTexture(gl.TEXTURE_2D, this.palettes[this.current]);
    gl.uniformMatrix3fv(u("turn"), false, camera.turn);
    gl.uniform3fv(u("centre"), camera.centre);
    gl.uniform2f(u("shift"), camera.shift[0], camera.shift[1]);
    gl.uniform2f(u("zoom"), (2 * camera.zoom) / camera.width, (2 * camera.zoom) / camera.height);
    gl.uniform2f(u("pixels"), camera.width, camera.height);
    for (const [name, value] of Object.entries(extra)) gl.uniform1f(u(name), value);
  }

  draw(camera, picked, with_sensors) {
    const gl = this.gl, s = this.scene, ratio = camera.ratio;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.disable(gl.BLEND);
    if (s.kind === "faces") {
      gl.enable(gl.DEPTH_TEST);
      this.use(this.faces, camera, {});
      for (const [name, buffer, size] of [["place", "corners", 3], ["normal", "normals", 3], ["share", "shares", 1]]) this.attribute(this.faces, name, buffer, size);
      gl.drawArrays(gl.TRIANGLES, 0, s.cells.length);
    } else {
      gl.disable(gl.DEPTH_TEST);
      const width = (s.kind === "lines" ? Math.min(9, 2.6 + 0.5 * Math.log2(camera.zoom / camera.home)) : 0.8) * ratio;
      this.use(this.lines, camera, { width: Math.max(width, 1) });
      for (const [name, buffer, size] of [["from", "from", 3], ["to", "to", 3], ["side", "side", 2], ["share", "shares", 1]]) this.attribute(this.lines, name, buffer, size);
      gl.drawArrays(gl.TRIANGLES, 0, 6 * this.n_lines);
    }
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    if (s.kind === "points") {
      // A sensor that is not drawn marks its node.
      const chosen = picked && picked.kind === "sensor" && !with_sensors ? picked.below : picked;
      const n = s.positions.length / 3, size = Math.min(14, Math.max(3, 220 / Math.sqrt(n))) * Math.sqrt(camera.zoom / camera.home);
      this.dots("nodes", "node_shares", n, camera, { size: Math.min(size, 22) * ratio, ring: 0, chosen: chosen && chosen.kind === "node" ? chosen.number : -1 });
    }
    if (s.sensors && with_sensors) {
      const size = Math.min(11, Math.max(5, 90 / Math.sqrt(s.sensors.count)));
      this.dots("sensors", "sensor_shares", s.sensors.count, camera, { size: size * ratio, ring: 1, chosen: picked && picked.kind === "sensor" ? picked.number : -1 });
    }
  }

  dots(places, shares, count, camera, extra) {
    this.use(this.points, camera, extra);
    this.attribute(this.points, "place", places, 3);
    this.attribute(this.points, "share", shares, 1);
    this.buffer("numbers", Float32Array.from({ length: count }, (_, i) => i));
    this.attribute(this.points, "number", "numbers", 1);
    this.gl.drawArrays(this.gl.POINTS, 0, count);
  }
}

// A normal for each corner: the mean of its vertex where values vary along the surface, unless the
// surface has an edge there; that of its face otherwise.
function normalsOf(corners, scene) {
  const n = corners.length / 9, own = new Float32Array(3 * n), sums = new Float32Array(scene.positions.length), normals = new Float32Array(corners.length);
  for (let f = 0; f < n; f++) {
    const a = corners.subarray(9 * f, 9 * f + 9), u = [a[3] - a[0], a[4] - a[1], a[5] - a[2]], v = [a[6] - a[0], a[7] - a[1], a[8] - a[2]];
    const w = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    for (let j = 0; j < 3; j++) for (let k = 0; k < 3; k++) sums[3 * scene.cells[3 * f + j] + k] += w[k];
    own.set(unit(w), 3 * f);
  }
  for (let i = 0; i < 3 * n; i++) {
    const flat = own.subarray(3 * Math.floor(i / 3), 3 * Math.floor(i / 3) + 3), at = 3 * scene.cells[i], smooth = unit(sums.subarray(at, at + 3));
    const close = flat[0] * smooth[0] + flat[1] * smooth[1] + flat[2] * smooth[2] > 0.7;
    normals.set(close && !scene.at_cells ? smooth : flat, 3 * i);
  }
  return normals;
}

function unit(v) {
  const length = Math.hypot(v[0], v[1], v[2]) || 1;
  return [v[0] / length, v[1] / length, v[2] / length];
}

function colourAt(colours, share) {
  const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1), i = Math.min(Math.floor(at), colours.length - 2), t = at - i;
  const parts = (text) => [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16));
  const a = parts(colours[i]), b = parts(colours[i + 1]);
  return a.map((value, k) => Math.round(value + t * (b[k] - value)));
}

const CAMERA = "precision highp float; uniform mat3 turn; uniform vec3 centre; uniform vec2 shift, zoom, pixels;" +
  "vec4 seen(vec3 p) { vec3 q = turn * (p - centre); return vec4(q.xy * zoom + 2.0 * shift / pixels, -0.5 * q.z, 1.0); }";
const GREY = "vec3(0.68, 0.70, 0.72)";
const FACES_VERTEX = CAMERA + "attribute vec3 place, normal; attribute float share; varying float level, known, light;" +
  "void main() { gl_Position = seen(place); level = max(share, 0.0); known = share < 0.0 ? 0.0 : 1.0;" +
  "vec3 n = turn * normal; light = 0.76 + 0.24 * clamp(abs(dot(n, vec3(-0.32, 0.48, 0.82))), 0.0, 1.0); }";
const FACES_FRAGMENT = "precision mediump float; uniform sampler2D palette; varying float level, known, light;" +
  "void main() { vec3 c = known > 0.99 ? texture2D(palette, vec2(level, 0.5)).rgb : " + GREY + "; gl_FragColor = vec4(c * light, 1.0); }";
const LINES_VERTEX = CAMERA + "uniform float width; attribute vec3 from, to; attribute vec2 side; attribute float share; varying float level;" +
  "void main() { vec4 a = seen(from), b = seen(to); vec2 d = (b.xy - a.xy) * pixels; float l = length(d); d = l > 0.0 ? d / l : vec2(1.0, 0.0);" +
  "vec4 p = side.x < 0.5 ? a : b; p.xy += (vec2(-d.y, d.x) * side.y + d * (2.0 * side.x - 1.0) * 0.4) * width / pixels; gl_Position = p; level = share; }";
const LINES_FRAGMENT = "precision mediump float; uniform sampler2D palette; varying float level;" +
  "void main() { vec3 c = level >= 0.0 ? texture2D(palette, vec2(level, 0.5)).rgb : " + GREY + "; gl_FragColor = vec4(c, 1.0); }";
const POINTS_VERTEX = CAMERA + "uniform float size, chosen; attribute vec3 place; attribute float share, number; varying float level, mark, pixels_wide;" +
  "void main() { vec4 p = seen(place); mark = abs(number - chosen) < 0.5 ? 1.0 : 0.0; p.z -= 0.01 + 0.4 * mark; gl_Position = p; pixels_wide = size * (1.0 + mark) + 2.0; gl_PointSize = pixels_wide; level = share; }";
const POINTS_FRAGMENT = "precision mediump float; uniform sampler2D palette; uniform float ring; varying float level, mark, pixels_wide;" +
  "void main() { float r = length(gl_PointCoord - 0.5) * pixels_wide, edge = 0.5 * pixels_wide - 1.0; float a = clamp(edge - r + 0.5, 0.0, 1.0); if (a <= 0.0 || (level < -1.5 && r < edge - 1.5)) discard;" +
  "vec3 c = level >= 0.0 ? texture2D(palette, vec2(level, 0.5)).rgb : (ring > 0.5 ? vec3(1.0) : " + GREY + ");" +
  "float line = max(1.6, 0.22 * edge); if (ring + mark > 0.5) { if (r > edge - 0.6 * line) c = vec3(0.12, 0.14, 0.16); else if (r > edge - 1.5 * line && level >= 0.0) c = vec3(1.0); }" +
  "else if (r > edge - 0.9) c = vec3(0.5); gl_FragColor = vec4(c * a, a); }";
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
    layers: scene.layers.map((layer) => ({ ...layer, values: values(layer) })),
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
    this.with_sensors = true;
    this.picked = null;
    this.dress(figure);
    this.measure();
    this.reset();
    this.listen();
    this.choose(0);
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
    const verb = s.flat ? "move" : "turn", keys = `arrows ${verb}, + and \u2212 zoom, 0 resets` + (s.sensors ? ", N is the next sensor" : "");
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
    if (by && this.scene.flat) this.camera.shift = this.camera.shift.map((value, k) => value - 40 * by[k]);
    else if (by) this.turn(8 * by[0], 8 * by[1]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.reset();
    else if ("nNpP".includes(event.key) && this.scene.sensors) {
      const n = this.scene.sensors.count, last = this.picked && this.picked.kind === "sensor" ? this.picked.number : -1;
      this.go((last + ("nN".includes(event.key) ? 1 : n - 1) + n) % n);
    } else if (event.key === "Escape") { this.picked = null; this.read(); } else return;
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
    this.read();
  }

  // A sensor, and the surface, line or node where it is.
  at_sensor(number) {
    const place = this.seen(this.scene.sensors.positions, number), below = picked(this, place);
    return { kind: "sensor", number, below: below && (this.scene.flat || Math.abs(below.depth - place[2]) < 0.03) ? below : null };
  }

  pick(at) {
    const surface = picked(this, at), sensor = this.with_sensors && this.scene.sensors ? nearest(this, this.scene.sensors.positions, at, surface ? surface.depth : -Infinity) : null;
    this.picked = sensor === null ? surface : this.at_sensor(sensor);
    this.read();
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
      const seen = (layer) => s.sensors.values[layer.name];
      for (const layer of s.layers) {
        const values = seen(layer);
        if (values && values[found.number] !== null) parts.push(`${s.sensors.labels[layer.name] || layer.title} ${shortNumber(values[found.number])}`);
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
    return number === null ? null : { kind: "node", number, depth: -Infinity, value: (layer) => layer.values[number] };
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
    if (gap < least) { least = gap; best = { kind: "line", number: l, depth: -Infinity, value: (layer) => layer.values[l] }; }
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
