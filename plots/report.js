/* report.js - lets readers choose among the pictures of a page, and enlarge parts of timelines. No library, nothing fetched. */
'use strict';

function formatTime(ns) {
  const [unit, size] = ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['us', 1e3] : ['ns', 1];
  return `${Number((ns / size).toPrecision(4))} ${unit}`;
}

/* Shows what is of one value for each circumstance that is held apart: rows of the table, and a front. */
function holdApart(choices) {
  const table = document.getElementById('best'), headings = [...table.rows[0].cells].map((cell) => cell.textContent);
  const update = () => {
    const apart = choices.map((choice) => `${choice.name} ${choice.value}`).join(', ');
    for (const row of [...table.rows].slice(1))
      row.hidden = choices.some((choice) => row.cells[headings.indexOf(choice.name)].textContent.replace(/^-$/, 'none') !== choice.value);
    for (const figure of document.querySelectorAll('figure.front')) figure.hidden = figure.dataset.apart !== apart;
  };
  for (const choice of choices) choice.addEventListener('change', update);
  update();
}

/* Views under each other, which show the same part [from, to] of time. */
const shown = { views: [], end: 1, from: 0, to: 1 };

function showPart(from, length) {
  shown.from = Math.max(0, Math.min(shown.end - length, from));
  shown.to = shown.from + length;
  document.getElementById('part').textContent = `shown: ${formatTime(shown.from)} to ${formatTime(shown.to)}`;
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

/* A picture of a timeline: its left end, with the devices, stays, and the rest shows a part of time. */
class View {
  constructor(figure, timeline, number) {
    Object.assign(this, { figure, timeline, svg: figure.querySelector('svg'), place: figure.parentNode.dataset });
    this.height = this.svg.viewBox.baseVal.height;
    this.end = timeline.ops.reduce((end, op) => Math.max(end, op[3]), 1);
    this.svg.querySelector('g').id = `picture-${number}`;
    figure.classList.add('drawn');
    figure.querySelector('figcaption').insertAdjacentHTML('afterend',
      `<svg viewBox="0 0 ${this.place.left} ${this.height}" style="--stretch: 1"><use href="#picture-${number}"/></svg>`);
    for (const svg of figure.querySelectorAll('svg')) svg.style.height = `${this.height}px`;
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.fitNumbers();
    this.fitTicks();
    figure.onwheel = (event) => { event.preventDefault(); zoom(this.timeAt(event), 1.0015 ** event.deltaY); };
    figure.onpointerdown = (event) => { this.drag = this.timeAt(event); figure.setPointerCapture(event.pointerId); };
    figure.onpointerup = () => { this.drag = undefined; };
    figure.ondblclick = () => showPart(0, shown.end);
    figure.onpointermove = (event) => this.move(event);
    figure.onkeydown = (event) => { if (press(event.key)) event.preventDefault(); };
  }

  /* Each number knows how many times its box is wider than it. */
  fitNumbers() {
    const boxes = [...this.svg.querySelectorAll('g[id^=gnuplot_plot] polygon')], numbers = [...this.svg.querySelectorAll('g[id^=gnuplot_plot] text')];
    numbers.forEach((number, i) => {
      const width = Math.abs(boxes[i].points[1].x - boxes[i].points[0].x);
      number.style.setProperty('--room', width / (6 * number.textContent.length + 3));
    });
  }

  /* The time axis has more ticks than have room; round ones have the room of several. The first stands half in the left end. */
  fitTicks() {
    const ticks = this.ticks = [...this.svg.querySelectorAll('g[text-anchor=middle] > text')].filter((text) => !text.closest('g[id^=gnuplot_plot]') && /^\s*[\d.e+-]+$/.test(text.textContent));
    const rounder = /5/.test((ticks[1] || ticks[0]).textContent) ? [100, 20, 10, 2, 1] : [100, 50, 10, 5, 1];
    const distance = (this.place.right - this.place.left) / Math.max(1, ticks.length - 1);
    ticks.forEach((tick, i) => tick.style.setProperty('--room', (distance * rounder.find((n) => i % n === 0)) / 60));
  }

  timeAt(event) {
    const box = this.svg.getBoundingClientRect();
    return shown.from + ((event.clientX - box.left) / box.width) * (shown.to - shown.from);
  }

  move(event) {
    const time = this.timeAt(event), device = Math.floor((event.clientY - this.svg.getBoundingClientRect().top - this.place.top) / this.figure.dataset.row);
    if (this.drag !== undefined) showPart(shown.from + this.drag - time, shown.to - shown.from);
    else document.getElementById('hover').textContent = this.timeline.ops.filter((o) => o[0] === device && o[2] <= time && time < o[3]).map(describe).join('; ');
  }

  draw() {
    const scale = (this.place.right - this.place.left) / this.end, width = (shown.to - shown.from) * scale;
    this.svg.setAttribute('viewBox', `${+this.place.left + shown.from * scale} 0 ${width} ${this.height}`);
    this.svg.style.setProperty('--stretch', width / this.svg.clientWidth);
    this.ticks[0].style.visibility = shown.from > 0 ? 'hidden' : 'visible';
  }
}

function describe([device, name, start, end]) {
  const kind = document.getElementById(`kind-${name.match(/^[A-Z]+/)[0]}`).textContent;
  return `${name} (${kind}) on device ${device}: starts at ${formatTime(start)}, takes ${formatTime(end - start)}`;
}

/* The first two are shown until others are chosen. */
function showTimelines(choice, timelines) {
  const figures = [...document.querySelectorAll('figure.timeline')], views = figures.map((figure, i) => new View(figure, timelines[i], i));
  const update = () => {
    figures.forEach((figure, i) => { figure.hidden = !choice.options[i].selected; });
    shown.views = views.filter((view) => !view.figure.hidden);
    shown.end = Math.max(1, ...shown.views.map((view) => view.end));
    showPart(0, shown.end);
  };
  choice.size = Math.min(8, timelines.length);
  [...choice.options].slice(0, 2).forEach((option) => { option.selected = true; });
  choice.addEventListener('change', update);
  window.addEventListener('resize', () => showPart(shown.from, shown.to - shown.from));
  update();
}

if (document.getElementById('best')) holdApart([...document.querySelectorAll('#circumstances select')]);
if (document.getElementById('schedule')) showTimelines(document.getElementById('schedule'), JSON.parse(document.getElementById('timelines').textContent));
