// Times of a scene: a slider that plays, and a chart of one place over all times.
function decodedFrames(scene, bytes) {
  const steps = (layer) => (layer.coarse ? new Uint8Array(bytes(layer.values)) : new Uint16Array(bytes(layer.values)));
  const count = scene.frames.labels.length;
  const framed = (layer) => {
    const all = steps(layer), n = all.length / count, missing = layer.coarse ? 255 : 65535, unit = (layer.high - layer.low) / (missing - 1);
    const value = (step) => (step === missing ? NaN : layer.low + step * unit);
    // The values of one frame, and of one place over all frames, weighted where it lies between.
    const at = (frame) => Float32Array.from(all.subarray(frame * n, (frame + 1) * n), value);
    const over = (number) => Float32Array.from({ length: count }, (_, frame) => value(all[frame * n + number]));
    return { ...layer, at, over, values: at(scene.frames.first) };
  };
  const layers = scene.layers.map(framed), sensors = scene.sensors;
  if (sensors) for (const [name, one] of Object.entries(sensors.values)) if (!Array.isArray(one)) sensors.values[name] = framed(one);
  return layers;
}

class Clock {
  constructor(viewer, frames) {
    this.viewer = viewer;
    this.frames = frames;
    this.count = frames.labels.length;
    this.frame = frames.first;
    this.playing = 0;
    this.dress();
    this.show(this.frame);
  }

  dress() {
    const button = (text, label, act) => {
      const made = element("button", { type: "button", textContent: text, title: label, ariaLabel: label });
      made.addEventListener("click", act);
      return made;
    };
    this.toggle = button("\u25b6", "Play", () => this.play(!this.playing));
    this.slider = element("input", { type: "range", min: 0, max: this.count - 1, step: 1, value: this.frame, ariaLabel: "Time" });
    this.slider.addEventListener("input", () => { this.play(false); this.show(Number(this.slider.value)); });
    this.label = element("output", { className: "when" });
    this.root = element("div", { className: "clock" }, this.toggle, button("\u2039", "One time back", () => this.step(-1)), this.slider, button("\u203a", "One time on", () => this.step(1)), this.label);
    this.chart = element("div", { className: "chart", hidden: true });
    const drag = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = this.chart.querySelector("svg").getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
      const wanted = share * this.frames.times[this.count - 1], gap = (i) => Math.abs(this.frames.times[i] - wanted);
      let best = 0;
      for (let i = 1; i < this.count; i++) if (gap(i) < gap(best)) best = i;
      this.play(false);
      this.show(best);
    };
    for (const name of ["pointerdown", "pointermove"]) this.chart.addEventListener(name, drag);
  }

  step(by) {
    this.play(false);
    this.show(Math.min(this.count - 1, Math.max(0, this.frame + by)));
  }

  // A whole pass takes about forty seconds, with six to thirty times a second.
  play(wanted) {
    clearInterval(this.playing);
    this.playing = 0;
    if (wanted) {
      if (this.frame === this.count - 1) this.show(0);
      this.playing = setInterval(() => {
        if (this.frame === this.count - 1) this.play(false);
        else this.show(this.frame + 1);
      }, 1000 / Math.min(30, Math.max(6, this.count / 40)));
    }
    const text = wanted ? "Pause" : "Play";
    Object.assign(this.toggle, { textContent: wanted ? "\u275a\u275a" : "\u25b6", title: text, ariaLabel: text });
    this.viewer.reading.setAttribute("aria-live", wanted ? "off" : "polite");
  }

  show(frame) {
    const s = this.viewer.scene;
    this.frame = frame;
    this.slider.value = frame;
    this.slider.setAttribute("aria-valuetext", this.frames.labels[frame]);
    this.label.textContent = this.frames.labels[frame];
    for (const layer of s.layers) layer.values = layer.at(frame);
    if (s.sensors) {
      for (const one of Object.values(s.sensors.values)) if (one.at) one.now = one.at(frame);
    }
    this.viewer.refresh();
    this.move();
  }

  key(name) {
    if (name === " ") this.play(!this.playing);
    else if (name === "," || name === "<") this.step(-1);
    else if (name === "." || name === ">") this.step(1);
    else if (name === "Home") this.step(-this.count);
    else if (name === "End") this.step(this.count);
    else return false;
    return true;
  }

  // The law of the picked place over all times, with the values of its sensor.
  draw(found, sensor) {
    const s = this.viewer.scene;
    this.chart.hidden = !found || this.count < 2;
    if (this.chart.hidden) { this.chart.replaceChildren(); return; }
    const over = (layer) => found.over((number) => layer.over(number)), mean = over(s.layers[0]), std = over(s.layers[1]);
    const seen = sensor === null ? null : s.sensors.values.mean.over(sensor), width = 1.96;
    let low = Infinity, high = -Infinity;
    mean.forEach((value, i) => { low = Math.min(low, value - width * std[i]); high = Math.max(high, value + width * std[i]); });
    if (seen) seen.forEach((value) => { if (!Number.isNaN(value)) { low = Math.min(low, value); high = Math.max(high, value); } });
    const last = this.frames.times[this.count - 1] || 1, x = (i) => ((600 * this.frames.times[i]) / last).toFixed(1), y = (value) => (4 + 102 * (1 - (value - low) / (high - low || 1))).toFixed(1);
    const line = (value) => Array.from(mean, (_, i) => `${x(i)} ${y(value(i))}`), upper = line((i) => mean[i] + width * std[i]), lower = line((i) => mean[i] - width * std[i]);
    const dots = seen ? Array.from(seen, (value, i) => (Number.isNaN(value) ? "" : `M${x(i)} ${y(value)}h0`)).join("") : "";
    const gaps = seen ? this.gaps(seen, x) : "";
    const name = "http://www.w3.org/2000/svg", svg = document.createElementNS(name, "svg");
    svg.setAttribute("viewBox", "0 0 600 110");
    svg.setAttribute("preserveAspectRatio", "none");
    for (const [kind, d] of [["gaps", gaps], ["band", `M${upper.join("L")}L${lower.reverse().join("L")}Z`], ["line", `M${line((i) => mean[i]).join("L")}`], ["dots", dots], ["now", ""]]) {
      const path = document.createElementNS(name, "path");
      path.setAttribute("class", kind);
      path.setAttribute("d", d);
      svg.append(path);
    }
    const ends = [0, this.count - 1].map((i) => element("span", { textContent: this.frames.labels[i] }));
    const range = [high, low].map((value) => element("span", { textContent: shortNumber(Number(value.toPrecision(3))) }));
    this.chart.replaceChildren(element("div", { className: "range" }, ...range), svg, element("div", { className: "ends" }, ...ends));
    this.x = x;
    this.move();
  }

  // Runs of times without a value, as boxes.
  gaps(seen, x) {
    let text = "";
    for (let i = 0; i < seen.length; i++) {
      if (!Number.isNaN(seen[i])) continue;
      let j = i;
      while (j + 1 < seen.length && Number.isNaN(seen[j + 1])) j++;
      text += `M${x(i)} 0V110H${x(j)}V0Z`;
      i = j;
    }
    return text;
  }

  move() {
    const now = this.chart.querySelector(".now");
    if (now) now.setAttribute("d", `M${this.x(this.frame)} 0V110`);
  }
}
