/* report.js - draws a page's front of time against memory, if it has one, and its timelines. No library, nothing fetched. */
'use strict';

const names = { F: 'forward', B: 'backward for input', W: 'backward for weights', BW: 'full backward', R: 'recompute', O: 'optimizer' };

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const { schedules, kinds, devices: shades } = read('colours');
/* Colour and number of a schedule's mark; those of files come after the families. */
const lookOf = (name) => schedules[name] || (schedules[name] = ['#333333', Object.keys(schedules).length]);

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
function drawMark(parent, schedule, x, y) {
  const r = 4.5, [colour, series] = lookOf(schedule), empty = Math.floor(series / 5) % 2;
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
  const drawn = [...new Set(points.map((p) => p.schedule))];
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
    const mark = drawMark(svg, p.schedule, x.at(p.peak_memory_bytes), y.at(p.time));
    element(mark, 'title', {}, `${p.schedule}, ${p.devices} devices, ${p.microbatches} microbatches: ${formatTime(p.time)} per sequence, ${formatSize(p.peak_memory_bytes)}`);
  }
  nameFronts(svg, names);
  drawn.forEach((name, i) => {
    const at = top + 10 + Math.min(17, 460 / drawn.length) * i;
    drawMark(svg, name, right + 20, at - 4);
    element(svg, 'text', { x: right + 30, y: at }, name);
  });
}

/* Views under each other, which show the same part [from, to] of time. */
const shown = { views: [], end: 1, from: 0, to: 1 };

function showPart(from, length) {
  shown.from = Math.max(0, Math.min(shown.end - length, from));
  shown.to = shown.from + length;
  for (const view of shown.views) view.draw();
}

function zoom(at, factor) {
  const length = Math.min(shown.end, Math.max(10, (shown.to - shown.from) * factor));
  showPart(at - ((at - shown.from) / (shown.to - shown.from)) * length, length);
}

/* Handles a key; FALSE: it has no meaning here. */
function press(key) {
  const length = shown.to - shown.from, middle = shown.from + length / 2;
  if (key === '+' || key === '=') zoom(middle, 1 / 1.5);
  else if (key === '-') zoom(middle, 1.5);
  else if (key === 'ArrowLeft') showPart(shown.from - length / 10, length);
  else if (key === 'ArrowRight') showPart(shown.from + length / 10, length);
  else if (key === 'Home') showPart(0, shown.end);
  else return false;
  return true;
}

/* Draws that part of a timeline on a canvas: a row for each device, time, and memory. The two ops of a pair share their time: the
 * first, marked with a +, takes the upper half of the row. */
class View {
  constructor(canvas, hover, timeline) {
    Object.assign(this, { canvas, hover, timeline });
    this.half = timeline.ops.map((op, i) => (op[1].endsWith('+') ? 'upper' : i > 0 && timeline.ops[i - 1][1].endsWith('+') ? 'lower' : ''));
    this.sliced = timeline.ops.some((op) => op[1].includes('/'));
    this.end = timeline.ops.reduce((end, op) => Math.max(end, op[3]), 1);
    this.most = timeline.memory.reduce((most, point) => Math.max(most, point[2]), 0);
    canvas.onwheel = (event) => { event.preventDefault(); zoom(this.timeAt(event.offsetX), 1.0015 ** event.deltaY); };
    canvas.onpointerdown = (event) => { this.drag = event.offsetX; canvas.setPointerCapture(event.pointerId); };
    canvas.onpointerup = () => { this.drag = undefined; };
    canvas.ondblclick = () => showPart(0, shown.end);
    canvas.onpointermove = (event) => this.move(event);
    canvas.onkeydown = (event) => { if (press(event.key)) event.preventDefault(); };
  }

  get left() { return 62; }
  get row() { return Math.max(5, Math.min(30, 560 / this.timeline.devices)); }
  get rows() { return this.row * this.timeline.devices; }
  get scale() { return (this.canvas.clientWidth - this.left) / (shown.to - shown.from); }
  timeAt(x) { return shown.from + (x - this.left) / this.scale; }
  xOf(time) { return this.left + (time - shown.from) * this.scale; }

  move(event) {
    if (this.drag !== undefined) {
      showPart(shown.from - (event.offsetX - this.drag) / this.scale, shown.to - shown.from);
      this.drag = event.offsetX;
      return;
    }
    const time = this.timeAt(event.offsetX), device = Math.floor(event.offsetY / this.row);
    const ops = this.timeline.ops.filter((o) => o[0] === device && o[2] <= time && time < o[3]);
    this.hover.textContent = ops.map(describe).join('; ');
  }

  draw() {
    const ratio = window.devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.rows + 22 + (this.most ? 96 : 0);
    const pen = this.canvas.getContext('2d');
    this.canvas.style.height = `${height}px`;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    this.timeline.ops.forEach((op, i) => { if (op[3] > shown.from && op[2] < shown.to) this.drawOp(pen, op, this.half[i]); });
    if (this.most) this.drawMemory(pen, this.rows + 26, 88);
    this.drawFrame(pen, width, this.rows + 22);
  }

  /* A line in steps for each device, in the colour of the chip beside its row. */
  drawMemory(pen, top, height) {
    const y = (bytes) => top + height - (bytes / this.most) * (height - 8);
    let device = -1;
    for (const [owner, time, bytes] of [...this.timeline.memory, [-1, 0, 0]]) {
      if (owner !== device) {
        if (device >= 0) { pen.lineTo(this.xOf(this.end), this.last); pen.stroke(); }
        device = owner;
        if (device < 0) break;
        pen.strokeStyle = this.colourOf(device);
        pen.beginPath();
        pen.moveTo(this.xOf(time), y(bytes));
      } else {
        pen.lineTo(this.xOf(time), this.last);
        pen.lineTo(this.xOf(time), y(bytes));
      }
      this.last = y(bytes);
    }
    pen.fillStyle = '#fff';
    pen.fillRect(0, top - 4, this.left, height + 8);
    pen.fillStyle = '#333';
    pen.fillText(formatSize(this.most), 4, y(this.most));
    pen.fillText('0 B', 4, y(0) - 5);
  }

  colourOf(device) { return shades[Math.round((device / Math.max(1, this.timeline.devices - 1)) * (shades.length - 1))]; }


  drawOp(pen, op, half) {
    const x = this.xOf(op[2]), w = (op[3] - op[2]) * this.scale;
    const row = half ? this.row / 2 : this.row, y = op[0] * this.row + (half === 'lower' ? row : 0);
    const parts = op[1].match(/(\d+)(?:\.\d+)?(?:\/(\d+))?/), text = parts ? parts[1] + (this.sliced ? String.fromCharCode(97 + ((parts[2] || 0) % 26)) : '') : '';
    const shade = mix(kinds[kindOf(op)], 0.6 * Math.min(1, op[4] / 3));
    pen.fillStyle = `rgb(${shade})`;
    pen.fillRect(x, y + 0.5, Math.max(w - (w > 4 ? 0.7 : 0), 0.5), row - 1);
    if (w > 20 && row > 10 && text) {
      pen.fillStyle = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 140 ? '#000' : '#fff';
      pen.fillText(text, x + w / 2 - 3.5 * text.length, y + row / 2);
    }
  }

  drawFrame(pen, width, height) {
    const step = Math.max(1, Math.ceil(14 / this.row));
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, this.left, height);
    for (let device = 0; device < this.timeline.devices && this.most; device++) {
      pen.fillStyle = this.colourOf(device);
      pen.fillRect(this.left - 8, (device + 0.25) * this.row, 4, this.row / 2);
    }
    pen.fillStyle = '#333';
    for (let device = 0; device < this.timeline.devices; device += step) pen.fillText(String(device), 8, Math.max(7, (device + 0.5) * this.row));
    for (const time of evenTicks(shown.from, shown.to, 10)) {
      const x = this.xOf(time), text = formatTime(time);
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

function captionOf(t, name) {
  return `${name}: iteration ${formatTime(t.iteration_ns)}; ${t.origin === 'measured' ? 'on' : 'costs:'} ${t.source || 'unknown'}`;
}

/* The first two are shown until others are chosen. */
function drawTimelines(timelines) {
  const choice = document.getElementById('schedule'), views = document.getElementById('views'), hover = document.getElementById('hover');
  const model = views.querySelector('canvas'), update = () => {
    const options = [...choice.selectedOptions], chosen = options.map((option) => timelines[option.value]);
    document.getElementById('kinds').innerHTML = Object.keys(kinds).filter((kind) => chosen.some((t) => t.ops.some((op) => kindOf(op) === kind)))
      .map((kind) => `<span class="key"><i style="background:${kinds[kind]}"></i>${kind} ${names[kind]}</span>`).join('');
    views.replaceChildren();
    shown.views = chosen.map((t, i) => {
      const caption = views.appendChild(document.createElement('p'));
      caption.textContent = captionOf(t, options[i].textContent);
      return new View(views.appendChild(model.cloneNode()), hover, t);
    });
    shown.end = Math.max(1, ...shown.views.map((view) => view.end));
    showPart(0, shown.end);
  };
  choice.size = Math.min(8, timelines.length);
  [...choice.options].slice(0, 2).forEach((option) => { option.selected = true; });
  choice.addEventListener('change', update);
  window.addEventListener('resize', () => showPart(shown.from, shown.to - shown.from));
  update();
}

if (read('points')) holdApart(read('points').results, drawFront);
if (read('timelines').length) drawTimelines(read('timelines'));
