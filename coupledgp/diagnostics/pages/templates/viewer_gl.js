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
      // Sensors without a value at the shown time are hollow.
      const given = s.sensors.values[layer.name], now = given && given.now, values = now || given;
      this.buffer("sensor_shares", Float32Array.from({ length: s.sensors.count }, (_, i) => (!values ? (s.frames ? -2 : -1) : now && Number.isNaN(now[i]) ? -2 : share(values[i]))));
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
