/* report.js - draws a page's front of time against memory, if it has one, and its timelines. No library, nothing fetched. */
'use strict';

const names = { F: 'forward', B: 'backward for input', W: 'backward for weights', BW: 'full backward', R: 'recompute', O: 'optimizer' };

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const { series: colours, kinds } = read('colours');

function formatTime(ns) {
  const [unit, size] = ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['us', 1e3] : ['ns', 1];
  return `${Number((ns / size).toPrecision(4))} ${unit}`;
}

function formatSize(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const unit = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${Number((bytes / 1024 ** unit).toPrecision(4))} ${units[unit]}`;
}

/* The points, sorted by memory then time, that are faster than all before them. */
function front(points) {
  const sorted = [...points].sort((a, b) => a.peak_memory_bytes - b.peak_memory_bytes || a.time - b.time);
  let best = Infinity;
  return sorted.filter((point) => point.time < best && ((best = point.time), true));
}

/* About n even values from low to high: 1, 2 or 5 times a power of ten of the unit. */
function evenTicks(low, high, n, unit = 1) {
  const rough = (high - low) / n / unit, power = 10 ** Math.floor(Math.log10(rough));
  const step = unit * power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(k * step);
  return ticks;
}

/* Values from low to high at these digits times powers of base. */
function logTicks(low, high, base, digits) {
  const ticks = [];
  for (let k = Math.floor(Math.log(low) / Math.log(base)); base ** k <= high; k++)
    for (const digit of digits) if (digit * base ** k >= low && digit * base ** k <= high) ticks.push(digit * base ** k);
  return ticks;
}

const timeTicks = (low, high, log) => (log ? logTicks(low, high, 10, high < 20 * low ? [1, 1.5, 2, 3, 4, 5, 6, 8] : [1, 2, 5]) : evenTicks(low, high, 6));
/* Whole bytes from 0 on. */
function sizeTicks(low, high, log) {
  if (log) return logTicks(low, high, 2, [1]);
  return evenTicks(low, Math.max(high, low + 6), 6, 2 ** (10 * Math.floor(Math.log2(Math.max(high, 1)) / 10))).filter((size) => size >= 0 && size <= high);
}


/* Maps values to pixels; logarithmic if values spread over a factor of eight, or half of them lie in the lowest third. */
function scale(values, from, to, ticks) {
  const sorted = [...values].sort((a, b) => a - b), low = sorted[0], high = sorted[sorted.length - 1];
  const log = low > 0 && (high >= 8 * low || high > 3 * sorted[Math.floor(sorted.length / 2)]);
  const map = log ? Math.log : (x) => x, back = log ? Math.exp : (x) => x;
  const air = (map(high) - map(low) || Math.abs(map(high)) || 1) * 0.06;
  const begin = map(low) - air, range = map(high) + air - begin;
  return { at: (x) => from + ((map(x) - begin) / range) * (to - from), ticks: ticks(back(begin), back(begin + range), log) };
}

function element(parent, name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

/* Marks of many series: five shapes, filled, then empty. */
function drawMark(parent, series, x, y) {
  const r = 4.5, colour = colours[series % colours.length], empty = Math.floor(series / 5) % 2;
  const shapes = [`M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`, `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x} ${y - r}l${r} ${2 * r}h${-2 * r}z`, `M${x} ${y + r}l${r} ${-2 * r}h${-2 * r}z`, `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`];
  return element(parent, 'path', { class: 'mark', d: shapes[series % 5], stroke: colour, fill: empty ? '#fff' : colour, 'fill-opacity': empty ? 0.4 : 0.75 });
}

/* Draws the names of the fronts above their first points, and moves them up where two would overlap. */
function nameFronts(svg, names) {
  const placed = [];
  for (const name of names.sort((a, b) => b.y - a.y)) {
    let y = name.y;
    while (placed.some((p) => Math.abs(p.y - y) < 14 && Math.abs(p.x - name.x) < 75)) y -= 2;
    placed.push({ x: name.x, y });
    element(svg, 'text', { x: name.x, y }, name.text);
  }
}

/* What is held apart: columns of texts after the figures of a point. Asks for one value of each, and passes on the test. */
function holdApart(points, show) {
  const titles = Object.keys(points[0]).slice(5), chosen = {};
  const table = document.getElementById('best'), headings = [...table.rows[0].cells].map((cell) => cell.textContent);
  const update = () => {
    const fits = (valueOf) => titles.every((title) => valueOf(title) === chosen[title]);
    for (const row of [...table.rows].slice(1)) row.hidden = !fits((title) => row.cells[headings.indexOf(title)].textContent.replace(/^-$/, 'none'));
    show(points.filter((p) => fits((title) => p[title])));
  };
  for (const title of titles) {
    const label = document.createElement('label'), choice = label.appendChild(document.createElement('select'));
    label.prepend(`${title} `);
    for (const value of new Set(points.map((p) => p[title]))) choice.add(new Option(value));
    choice.addEventListener('change', () => { chosen[title] = choice.value; update(); });
    chosen[title] = choice.value;
    document.getElementById('circumstances').append(label, ' ');
  }
  update();
}

function drawFront(points) {
  document.getElementById('pareto').replaceChildren();
  if (!points.length) return;
  const width = 1100, height = 520, left = 90, right = 940, bottom = 470, top = 16;
  const x = scale(points.map((p) => p.peak_memory_bytes), left, right, sizeTicks);
  const y = scale(points.map((p) => p.time), bottom, top, timeTicks);
  const svg = element(document.getElementById('pareto'), 'svg', { viewBox: `0 0 ${width} ${height}`, role: 'img' });
  const schedules = [...new Set(points.map((p) => p.schedule))];
  element(svg, 'path', { d: `M${left} ${top}V${bottom}H${right}`, fill: 'none', stroke: '#555' });
  for (const t of x.ticks) element(svg, 'text', { x: x.at(t), y: bottom + 18, 'text-anchor': 'middle' }, formatSize(t));
  for (const t of y.ticks) element(svg, 'text', { x: left - 8, y: y.at(t) + 4, 'text-anchor': 'end' }, formatTime(t));
  element(svg, 'text', { x: (left + right) / 2, y: bottom + 40, 'text-anchor': 'middle' }, 'peak memory');
  element(svg, 'text', { x: 14, y: (top + bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 14 ${(top + bottom) / 2})` }, 'time per sequence');
  const names = [];
  for (const devices of new Set(points.map((p) => p.devices))) {
    const line = front(points.filter((p) => p.devices === devices));
    const path = line.map((p, i) => (i ? `H${x.at(p.peak_memory_bytes)}V${y.at(p.time)}` : `M${x.at(p.peak_memory_bytes)} ${y.at(p.time)}`));
    element(svg, 'path', { d: path.join(''), fill: 'none', stroke: '#888', 'stroke-width': 1.6 });
    names.push({ x: x.at(line[0].peak_memory_bytes) + 6, y: y.at(line[0].time) - 7, text: `${devices} devices` });
  }
  for (const p of points) {
    const mark = drawMark(svg, schedules.indexOf(p.schedule), x.at(p.peak_memory_bytes), y.at(p.time));
    element(mark, 'title', {}, `${p.schedule}, ${p.devices} devices, ${p.microbatches} microbatches: ${formatTime(p.time)} per sequence, ${formatSize(p.peak_memory_bytes)}`);
  }
  nameFronts(svg, names);
  schedules.forEach((name, i) => {
    const at = top + 10 + Math.min(17, 460 / schedules.length) * i;
    drawMark(svg, i, right + 20, at - 4);
    element(svg, 'text', { x: right + 30, y: at }, name);
  });
}

/* Draws the part [from, to] of a timeline on a canvas. */
class View {
  constructor(canvas, hover) {
    this.canvas = canvas;
    this.hover = hover;
    canvas.addEventListener('wheel', (event) => { event.preventDefault(); this.zoom(this.timeAt(event.offsetX), 1.0015 ** event.deltaY); }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => { this.drag = event.offsetX; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', () => { this.drag = undefined; });
    canvas.addEventListener('dblclick', () => this.show(this.timeline));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('keydown', (event) => { if (this.press(event.key)) event.preventDefault(); });
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

  /* Handles a key; FALSE: it has no meaning here. */
  press(key) {
    const length = this.to - this.from, middle = this.from + length / 2;
    if (key === '+' || key === '=') this.zoom(middle, 1 / 1.5);
    else if (key === '-') this.zoom(middle, 1.5);
    else if (key === 'ArrowLeft') this.place(this.from - length / 10, length);
    else if (key === 'ArrowRight') this.place(this.from + length / 10, length);
    else if (key === 'Home') this.show(this.timeline);
    else return false;
    return true;
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
    const shade = mix(kinds[kindOf(op)], 0.6 * Math.min(1, op[4] / 3));
    pen.fillStyle = `rgb(${shade})`;
    pen.fillRect(x, y + 0.5, Math.max(w - (w > 4 ? 0.7 : 0), 0.5), row - 1);
    if (w > 20 && row > 10 && microbatch) {
      pen.fillStyle = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 140 ? '#000' : '#fff';
      pen.fillText(microbatch[0], x + w / 2 - 4 * microbatch[0].length, y + row / 2);
    }
  }

  drawFrame(pen, width, height) {
    const step = Math.max(1, Math.ceil(14 / this.row));
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, this.left, height);
    pen.fillStyle = '#333';
    for (let device = 0; device < this.timeline.devices; device += step) pen.fillText(String(device), 8, Math.max(7, (device + 0.5) * this.row));
    for (const time of evenTicks(this.from, this.to, 10)) {
      const x = this.left + (time - this.from) * this.scale, text = formatTime(time);
      pen.fillRect(x, height - 21, 1, 4);
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.max(0, Math.min(x - half, width - 2 * half - 2)), height - 9);
    }
  }
}

/* '#rrggbb' as three numbers, mixed with white. */
function mix(colour, part) {
  return [1, 3, 5].map((i) => Math.round(parseInt(colour.slice(i, i + 2), 16) * (1 - part) + 255 * part));
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
    const source = t.source || 'unknown', origin = t.origin === 'measured' ? `measured on ${source}` : `${t.origin}, costs: ${source}`;
    caption.textContent = `${origin}; ${t.devices} devices, ${t.microbatches} microbatches, iteration ${formatTime(t.iteration_ns)}`;
    document.getElementById('kinds').innerHTML = Object.keys(kinds).filter((kind) => t.ops.some((op) => kindOf(op) === kind))
      .map((kind) => `<span class="key"><i style="background:${kinds[kind]}"></i>${kind} ${names[kind]}</span>`).join('');
    view.show(t);
  };
  choice.addEventListener('change', show);
  show();
}

if (read('points')) holdApart(read('points').results, drawFront);
if (read('timelines').length) drawTimelines(read('timelines'));
