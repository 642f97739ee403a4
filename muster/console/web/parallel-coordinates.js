// <parallel-coordinates>: one axis per parameter and one for the metric, one line per trial.
import {element, svg} from './dom.js';
import {number} from './format.js';
import {Scale} from './scale.js';

const kWidth = 1000;
const kHeight = 300;
const kTop = 34;
const kBottom = 276;
const kSide = 60;

class ParallelCoordinates extends HTMLElement {
  /** Axes are {label, value(trial), choices, isLog}; trials any. The last axis is the metric; best first. */
  show(axes, trials, isMaximized) {
    const place = (i) => kSide + i * (kWidth - 2 * kSide) / Math.max(1, axes.length - 1);
    const scales = axes.map((axis) => scaleOf(axis, trials));
    const metric = axes.at(-1);
    const range = scales.at(-1);
    const drawn = svg('svg', {viewBox: `0 0 ${kWidth} ${kHeight}`, role: 'img',
      'aria-label': `${trials.length} trials over ${axes.map((axis) => axis.label).join(', ')}`});
    for (const trial of [...trials].reverse()) {
      const points = axes.map((axis, i) => [place(i), scales[i].at(axis.value(trial))])
        .filter(([, y]) => y !== null && Number.isFinite(y));
      const part = (kBottom - range.at(metric.value(trial))) / (kBottom - kTop);
      const goodness = Number.isFinite(part) ? (isMaximized ? part : 1 - part) : 0;
      drawn.append(svg('polyline', {points: points.map((point) => point.join(',')).join(' '), class: 'trial',
        'data-trial': trial.id, 'stroke-opacity': 0.15 + 0.85 * Math.max(0, Math.min(1, goodness)) ** 2},
        svg('title', {}, `trial ${trial.id}: ${metric.label} ${number(metric.value(trial))}`)));
    }
    axes.forEach((axis, i) => {
      const x = place(i);
      drawn.append(svg('line', {x1: x, x2: x, y1: kTop, y2: kBottom, class: 'axis'}),
        svg('text', {x, y: 14, 'text-anchor': 'middle', class: 'axis-name'}, axis.label));
      for (const [text, y] of scales[i].ends) {
        drawn.append(svg('text', {x: x + 5, y: y + (y < kHeight / 2 ? 10 : -3), class: 'axis-end'}, text));
      }
    });
    this.replaceChildren(element('div', {class: 'scroll plain', tabindex: 0, role: 'region', 'aria-label': 'Trials over parameters'}, drawn));
  }
}

function scaleOf(axis, trials) {
  const values = trials.map((trial) => axis.value(trial)).filter((value) => value !== null && value !== undefined);
  if (axis.choices?.length) {
    const step = (kBottom - kTop) / Math.max(1, axis.choices.length - 1);
    const at = (value) => axis.choices.includes(value) ? kBottom - axis.choices.indexOf(value) * step : null;
    return {at, ends: axis.choices.map((choice) => [choice, at(choice)])};
  }
  const numbers = values.filter(Number.isFinite);
  if (numbers.length === 0) return {at: () => null, ends: []};
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const scale = new Scale(low, high, kBottom, kTop, axis.isLog);
  return {at: (value) => Number.isFinite(value) ? scale.at(value) : null,
          ends: [[number(low), scale.at(low)], [number(high), scale.at(high)]]};
}

customElements.define('parallel-coordinates', ParallelCoordinates);
