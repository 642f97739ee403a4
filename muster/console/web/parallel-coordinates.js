// <parallel-coordinates>: one axis per parameter and one for the metric, one line per trial. Axes stand beside each other;
// where there is little room, below each other. Drag along an axis for the trials with values there; click it for all. Tells
// 'brush' with the set of their ids, or null.
import {svg} from './dom.js';
import {number} from './format.js';
import {Scale} from './scale.js';

const kNarrow = 600;
const kLeastBetween = 90;
// Less of an axis is a click.
const kLeastRange = 0.02;
const kRounding = 1e-9;

// Where axes and what is on them lie: point(i, along) in the picture, of the axis i and a place along it.
function beside(count, width) {
  const [top, bottom, side] = [34, 276, 60];
  const between = (width - 2 * side) / Math.max(1, count - 1);
  const place = (i) => side + i * between;
  return {
    width, height: 300, begin: bottom, end: top,
    point: (i, along) => [place(i), along],
    area: (i, low, high) => ({x: place(i) - 14, y: low, width: 28, height: high - low}),
    along: (x, y) => y,
    name: (i) => ({x: place(i), y: 14, 'text-anchor': 'middle'}),
    value: (i, along) => ({x: place(i) + 5, y: along + (along < 150 ? 10 : -3)}),
  };
}

function below(count, width) {
  const [top, side, between] = [34, 8, 62];
  const place = (i) => top + i * between;
  return {
    width, height: place(count - 1) + 26, begin: side, end: width - side,
    point: (i, along) => [along, place(i)],
    area: (i, low, high) => ({x: low, y: place(i) - 14, width: high - low, height: 28}),
    along: (x) => x,
    name: (i) => ({x: side, y: place(i) - 8, 'text-anchor': 'start'}),
    value: (i, along) => ({x: along, y: place(i) + 14,
      'text-anchor': along < width / 3 ? 'start' : along > width * 2 / 3 ? 'end' : 'middle'}),
  };
}

class ParallelCoordinates extends HTMLElement {
  #axes = [];
  #trials = [];
  #isMaximized = true;
  #width = 0;
  // By the label of an axis: the part of it that is wanted, from 0 to 1.
  #ranges = new Map();
  #drag = null;
  #frame = null;
  #scales = [];
  #resize = new ResizeObserver(() => {
    if (this.clientWidth !== this.#width) this.#draw();
  });

  connectedCallback() {
    this.#resize.observe(this);
  }

  disconnectedCallback() {
    this.#resize.disconnect();
  }

  /**
   * Axes are {label, value(trial), choices, isLog}; trials any. The last axis is the metric; best first. Trials of another
   * `budget` than the best's are faint, whatever their metric.
   */
  show(axes, trials, isMaximized) {
    this.#axes = axes;
    this.#trials = trials;
    this.#isMaximized = isMaximized;
    this.#draw();
  }

  /** The ids of the trials that are in all ranges; null where there is no range. */
  get brushed() {
    return this.#ranges.size === 0 ? null : new Set(this.#trials.filter((trial) => this.#isIn(trial)).map((trial) => trial.id));
  }

  showAll() {
    this.#ranges.clear();
    this.#changed();
  }

  #changed() {
    this.#draw();
    this.dispatchEvent(new CustomEvent('brush', {detail: this.brushed}));
  }

  #isIn(trial) {
    return [...this.#ranges].every(([label, [low, high]]) => {
      const i = this.#axes.findIndex((axis) => axis.label === label);
      const part = i < 0 ? null : this.#partOf(this.#scales[i].at(this.#axes[i].value(trial)));
      return part !== null && part >= low - kRounding && part <= high + kRounding;
    });
  }

  // From 0 at the beginning of an axis to 1 at its end.
  #partOf(along) {
    const {begin, end} = this.#frame;
    return along === null || !Number.isFinite(along) ? null : (along - begin) / (end - begin);
  }

  #begin(event, label) {
    event.currentTarget.setPointerCapture(event.pointerId);
    this.#drag = {label, from: this.#pointed(event)};
  }

  #pointed(event) {
    const box = this.querySelector('svg').getBoundingClientRect();
    const scale = this.#frame.width / box.width;
    return this.#partOf(this.#frame.along((event.clientX - box.left) * scale, (event.clientY - box.top) * scale));
  }

  #end(event) {
    if (!this.#drag) return;
    const {label, from} = this.#drag;
    const to = this.#pointed(event);
    this.#drag = null;
    if (Math.abs(to - from) < kLeastRange) this.#ranges.delete(label);
    else this.#ranges.set(label, [snapped(Math.min(from, to)), snapped(Math.max(from, to))]);
    this.#changed();
  }

  #areaOf(axis, i) {
    const {begin, end} = this.#frame;
    const at = (part) => begin + part * (end - begin);
    const rect = (low, high, attributes) => svg('rect', {...this.#frame.area(i, Math.min(low, high), Math.max(low, high)), ...attributes});
    const area = rect(begin, end, {class: 'brush-area', 'data-axis': axis.label});
    area.addEventListener('pointerdown', (event) => this.#begin(event, axis.label));
    area.addEventListener('pointerup', (event) => this.#end(event));
    const range = this.#ranges.get(axis.label);
    return range ? [rect(at(range[0]), at(range[1]), {class: 'brush'}), area] : [area];
  }

  #draw() {
    this.#width = this.clientWidth;
    if (this.#axes.length === 0 || this.#width === 0) return;
    const axes = this.#axes;
    const room = axes.length * kLeastBetween;
    const isNarrow = this.#width < Math.max(kNarrow, room);
    const frame = isNarrow ? below(axes.length, this.#width) : beside(axes.length, this.#width);
    const scales = axes.map((axis) => scaleOf(axis, this.#trials, frame));
    this.#frame = frame;
    this.#scales = scales;
    const drawn = svg('svg', {viewBox: `0 0 ${frame.width} ${frame.height}`, role: 'img',
      'aria-label': `${this.#trials.length} trials over ${axes.map((axis) => axis.label).join(', ')}`});
    for (const trial of [...this.#trials].reverse()) drawn.append(this.#lineOf(trial, scales, frame));
    axes.forEach((axis, i) => {
      const [[x1, y1], [x2, y2]] = [frame.point(i, frame.begin), frame.point(i, frame.end)];
      drawn.append(svg('line', {x1, y1, x2, y2, class: 'axis'}), svg('text', {...frame.name(i), class: 'axis-name'}, axis.label));
      for (const [text, along] of scales[i].ends) drawn.append(svg('text', {...frame.value(i, along), class: 'axis-end'}, text));
      drawn.append(...this.#areaOf(axis, i));
    });
    this.replaceChildren(drawn);
    this.dataset.layout = isNarrow ? 'below' : 'beside';
  }

  #lineOf(trial, scales, frame) {
    const metric = this.#axes.at(-1);
    const points = this.#axes.map((axis, i) => [i, scales[i].at(axis.value(trial))])
      .filter(([, along]) => along !== null && Number.isFinite(along)).map(([i, along]) => frame.point(i, along).join(','));
    const part = (scales.at(-1).at(metric.value(trial)) - frame.begin) / (frame.end - frame.begin);
    const isComparable = (trial.budget ?? 0) === (this.#trials[0].budget ?? 0);
    const goodness = isComparable && Number.isFinite(part) ? (this.#isMaximized ? part : 1 - part) : 0;
    return svg('polyline', {points: points.join(' '), class: this.#isIn(trial) ? 'trial' : 'trial out', 'data-trial': trial.id,
      'stroke-opacity': 0.15 + 0.85 * Math.max(0, Math.min(1, goodness)) ** 2},
      svg('title', {}, `trial ${trial.id}: ${metric.label} ${number(metric.value(trial))}`));
  }
}

// Who drags to about the end of an axis wants the values there, too.
function snapped(part) {
  if (part < kLeastRange) return 0;
  return part > 1 - kLeastRange ? 1 : part;
}

function scaleOf(axis, trials, {begin, end}) {
  if (axis.choices?.length) {
    const step = (end - begin) / Math.max(1, axis.choices.length - 1);
    const at = (value) => axis.choices.includes(value) ? begin + axis.choices.indexOf(value) * step : null;
    return {at, ends: axis.choices.map((choice) => [choice, at(choice)])};
  }
  const numbers = trials.map((trial) => axis.value(trial)).filter(Number.isFinite);
  if (numbers.length === 0) return {at: () => null, ends: []};
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const scale = new Scale(low, high, begin, end, axis.isLog);
  return {at: (value) => Number.isFinite(value) ? scale.at(value) : null,
          ends: [[number(low), scale.at(low)], [number(high), scale.at(high)]]};
}

customElements.define('parallel-coordinates', ParallelCoordinates);
