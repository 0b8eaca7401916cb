/* report.js - draws a report's front of time against memory and its timelines. No library, nothing fetched. */
'use strict';

const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#b07a00', '#3a9bd0', '#333333'];
const kinds = { F: '#0072b2', B: '#009e73', W: '#e69f00', BW: '#d55e00', R: '#cc79a7', O: '#666666' };
const names = { F: 'forward', B: 'backward for input', W: 'backward for weights', BW: 'full backward', R: 'recompute', O: 'optimizer' };

const read = (id) => JSON.parse(document.getElementById(id).textContent);

function formatTime(ns) {
  const [unit, size] = ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['us', 1e3] : ['ns', 1];
  return `${Number((ns / size).toPrecision(4))} ${unit}`;
}

function formatSize(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const unit = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${Number((bytes / 1024 ** unit).toPrecision(4))} ${units[unit]}`;
}

/* Of points sorted by memory then time those that are faster than all before. */
function front(points) {
  const sorted = [...points].sort((a, b) => a.peak_memory_bytes - b.peak_memory_bytes || a.time - b.time);
  let best = Infinity;
  return sorted.filter((point) => point.time < best && ((best = point.time), true));
}

const roundTime = (ns, log) => Number(ns.toPrecision(log ? 1 : 3));
const roundSize = (bytes, log) => (log ? 2 ** Math.round(Math.log2(bytes)) : Number((bytes / 2 ** 20).toPrecision(3)) * 2 ** 20);

/* From values to pixels; logarithmic where values spread over more than a factor of eight. round makes ticks even. */
function scale(values, from, to, round) {
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const log = low > 0 && high > 8 * low;
  const map = log ? Math.log : (x) => x;
  const air = (map(high) - map(low) || 1) * 0.06;
  const begin = map(low) - air, range = map(high) + air - begin;
  const ticks = [...Array(6).keys()].map((i) => { const x = begin + (range * (i + 0.5)) / 6; return round(log ? Math.exp(x) : x, log); });
  return { at: (x) => from + ((map(x) - begin) / range) * (to - from), ticks: [...new Set(ticks)] };
}

function element(parent, name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

function drawFront(points) {
  const width = 1100, height = 520, left = 90, right = 940, bottom = 470, top = 16;
  const x = scale(points.map((p) => p.peak_memory_bytes), left, right, roundSize);
  const y = scale(points.map((p) => p.time), bottom, top, roundTime);
  const svg = element(document.getElementById('pareto'), 'svg', { viewBox: `0 0 ${width} ${height}`, role: 'img' });
  const schedules = [...new Set(points.map((p) => p.schedule))];
  element(svg, 'path', { d: `M${left} ${top}V${bottom}H${right}`, fill: 'none', stroke: '#555' });
  for (const t of x.ticks) element(svg, 'text', { x: x.at(t), y: bottom + 18, 'text-anchor': 'middle' }, formatSize(t));
  for (const t of y.ticks) element(svg, 'text', { x: left - 8, y: y.at(t) + 4, 'text-anchor': 'end' }, formatTime(t));
  element(svg, 'text', { x: (left + right) / 2, y: bottom + 40, 'text-anchor': 'middle' }, 'peak memory');
  element(svg, 'text', { x: 14, y: (top + bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 14 ${(top + bottom) / 2})` }, 'time per sequence');
  for (const devices of new Set(points.map((p) => p.devices))) {
    const line = front(points.filter((p) => p.devices === devices));
    const path = line.map((p, i) => (i ? `H${x.at(p.peak_memory_bytes)}V${y.at(p.time)}` : `M${x.at(p.peak_memory_bytes)} ${y.at(p.time)}`));
    element(svg, 'path', { d: path.join(''), fill: 'none', stroke: '#888', 'stroke-width': 1.6 });
    element(svg, 'text', { x: x.at(line[0].peak_memory_bytes) + 6, y: y.at(line[0].time) - 7 }, `${devices} devices`);
  }
  for (const p of points) {
    const mark = element(svg, 'circle', { cx: x.at(p.peak_memory_bytes), cy: y.at(p.time), r: 4, fill: colours[schedules.indexOf(p.schedule) % colours.length], 'fill-opacity': 0.75 });
    element(mark, 'title', {}, `${p.schedule}, ${p.devices} devices, ${p.microbatches} microbatches: ${formatTime(p.time)} per sequence, ${formatSize(p.peak_memory_bytes)}`);
  }
  schedules.forEach((name, i) => element(svg, 'text', { x: right + 20, y: top + 10 + Math.min(17, 460 / schedules.length) * i, style: `fill:${colours[i % colours.length]}` }, name));
}

/* The part [from, to] of a timeline on a canvas. */
class View {
  constructor(canvas, hover) {
    this.canvas = canvas;
    this.hover = hover;
    canvas.addEventListener('wheel', (event) => { event.preventDefault(); this.zoom(this.timeAt(event.offsetX), 1.0015 ** event.deltaY); }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => { this.drag = event.offsetX; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', () => { this.drag = undefined; });
    canvas.addEventListener('dblclick', () => this.show(this.timeline));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    window.addEventListener('resize', () => this.draw());
  }

  /* The two ops of a pair share their time: the first, marked with a +, takes the upper half of the row. */
  show(timeline) {
    this.timeline = timeline;
    this.half = timeline.ops.map((op, i) => (op[1].endsWith('+') ? 'upper' : i > 0 && timeline.ops[i - 1][1].endsWith('+') ? 'lower' : ''));
    this.end = timeline.ops.reduce((end, op) => Math.max(end, op[3]), 1);
    [this.from, this.to] = [0, this.end];
    this.draw();
  }

  get left() { return 42; }
  get row() { return Math.max(5, Math.min(30, 560 / this.timeline.devices)); }
  get scale() { return (this.canvas.clientWidth - this.left) / (this.to - this.from); }
  timeAt(x) { return this.from + (x - this.left) / this.scale; }

  zoom(at, factor) {
    const length = Math.min(this.end, Math.max(10, (this.to - this.from) * factor));
    const part = (at - this.from) / (this.to - this.from);
    this.place(at - part * length, length);
  }

  place(from, length) {
    this.from = Math.max(0, Math.min(this.end - length, from));
    this.to = this.from + length;
    this.draw();
  }

  move(event) {
    if (this.drag !== undefined) {
      this.place(this.from - (event.offsetX - this.drag) / this.scale, this.to - this.from);
      this.drag = event.offsetX;
      return;
    }
    const time = this.timeAt(event.offsetX), device = Math.floor(event.offsetY / this.row);
    const ops = this.timeline.ops.filter((o) => o[0] === device && o[2] <= time && time < o[3]);
    this.hover.textContent = ops.map(describe).join('; ');
  }

  draw() {
    const ratio = window.devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.row * this.timeline.devices + 22;
    const pen = this.canvas.getContext('2d');
    this.canvas.style.height = `${height}px`;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    this.timeline.ops.forEach((op, i) => { if (op[3] > this.from && op[2] < this.to) this.drawOp(pen, op, this.half[i]); });
    this.drawFrame(pen, width, height);
  }

  drawOp(pen, op, half) {
    const x = this.left + (op[2] - this.from) * this.scale, w = (op[3] - op[2]) * this.scale;
    const row = half ? this.row / 2 : this.row, y = op[0] * this.row + (half === 'lower' ? row : 0);
    const microbatch = op[1].match(/\d+/);
    pen.fillStyle = kinds[kindOf(op)];
    pen.globalAlpha = 1 - 0.45 * Math.min(1, op[4] / 3);
    pen.fillRect(x, y + 0.5, Math.max(w - (w > 4 ? 0.7 : 0), 0.5), row - 1);
    pen.globalAlpha = 1;
    if (w > 20 && row > 10 && microbatch) {
      pen.fillStyle = '#fff';
      pen.fillText(microbatch[0], x + w / 2 - 4 * microbatch[0].length, y + row / 2);
    }
  }

  drawFrame(pen, width, height) {
    const step = Math.max(1, Math.ceil(14 / this.row));
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, this.left, height);
    pen.fillStyle = '#333';
    for (let device = 0; device < this.timeline.devices; device += step) pen.fillText(String(device), 8, (device + 0.5) * this.row);
    for (let i = 0; i < 8; i++) pen.fillText(formatTime(this.from + ((this.to - this.from) * i) / 8), this.left + ((width - this.left) * i) / 8, height - 9);
  }
}

function kindOf(op) { return op[1].match(/^[A-Z]+/)[0]; }

function describe(op) {
  const [device, name, start, end] = op;
  return `${name} (${names[kindOf(op)]}) on device ${device}: starts at ${formatTime(start)}, takes ${formatTime(end - start)}`;
}

function drawTimelines(timelines) {
  const choice = document.getElementById('schedule'), caption = document.getElementById('caption');
  const view = new View(document.getElementById('timeline'), document.getElementById('hover'));
  const show = () => {
    const t = timelines[choice.value];
    caption.textContent = `${t.origin}; ${t.source || 'source not known'}; ${t.devices} devices, ${t.microbatches} microbatches, iteration ${formatTime(t.iteration_ns)}`;
    view.show(t);
  };
  choice.addEventListener('change', show);
  show();
}

drawFront(read('points').results);
if (read('timelines').length) drawTimelines(read('timelines'));
