// <machine-panel>: what the tasks of a run take of their machines, and the shares of their steps over time, as a picture.
import {get} from './api.js';
import {element, svg} from './dom.js';
import {number} from './format.js';
import {legend} from './legend.js';
import {isOfMachine, taskOf} from './run-label.js';
import './sorted-table.js';

const kShares = 'step_percent/';
// In the order of a step. Told apart on light and dark.
const kParts = [
  {name: 'input', text: 'waits for input', color: '#e07b39'}, {name: 'compute', text: 'computes', color: '#2f6fde'},
  {name: 'sum', text: 'sums and updates', color: '#2a9d6f'}, {name: 'save', text: 'saves', color: '#b554c9'},
  {name: 'evaluate', text: 'evaluates', color: '#7a8b99'},
];
const kWidth = 600;
const kHeight = 90;

class MachinePanel extends HTMLElement {
  #asked = '';
  #shares = element('div', {class: 'stack'});
  #table = element('sorted-table');

  connectedCallback() {
    if (this.childElementCount === 0) this.append(this.#shares, this.#table);
  }

  /** The answer to `run`. Hidden where no task has written samples. */
  async show(run) {
    const scalars = run.scalars.filter(isOfMachine);
    this.hidden = scalars.length === 0;
    const tasks = [...new Set(scalars.map(taskOf))].sort();
    this.#showTable(scalars.filter(({tag}) => !tag.startsWith(kShares)), tasks);
    const asked = scalars.filter(({tag}) => tag.startsWith(kShares)).map(({evaluation, tag, points}) => `${evaluation} ${tag} ${points}`).join();
    if (asked === this.#asked) return;
    this.#asked = asked;
    const parts = await Promise.all(kParts.map(({name}) => get('scalars', {tag: kShares + name, run: run.id, points: kWidth})));
    if (asked !== this.#asked) return;
    const all = new Map();
    parts.forEach(({curves}, part) => curves.forEach((curve) => {
      const task = taskOf(curve);
      if (!all.has(task)) all.set(task, []);
      all.get(task)[part] = curve;
    }));
    // A task that is being sampled may have a part less than the others for a moment.
    const whole = [...all].filter(([, curves]) => kParts.every((_, part) => curves[part])).sort();
    this.#shares.replaceChildren(...whole.map(([task, curves]) => sharesOf(task, curves)),
      ...(whole.length > 0 ? [legend(...kParts.map(({text, color}) => ({text, color})))] : []));
    this.dataset.tasks = whole.length;
  }

  #showTable(scalars, tasks) {
    const rows = new Map();
    for (const one of scalars) {
      const row = rows.get(one.tag) ?? {key: one.tag, tag: one.tag, last: {}};
      row.last[taskOf(one)] = one.last.value;
      rows.set(one.tag, row);
    }
    const nameOf = (tag) => tag.replace(/^machine\//, '').replaceAll('_', ' ').replace(' mib per second', ', MiB/s')
      .replace(/ mib$/, ', MiB').replace(/ percent$/, ', %');
    this.#table.show([{name: 'tag', label: 'now', value: (row) => row.tag, cell: (row) => nameOf(row.tag)},
      ...tasks.map((task) => ({name: task, label: task, isNumber: true, value: (row) => row.last[task] ?? null,
        cell: (row) => rounded(row.last[task])}))], [...rows.values()], {label: 'Use of the machines', by: 'tag', empty: ''});
  }
}

function rounded(value) {
  return typeof value === 'number' ? number(Number(value.toPrecision(3))) : '–';
}

/** A picture of the shares of one task: bands over the time, one over the other. */
function sharesOf(task, curves) {
  const count = Math.min(...curves.map((curve) => curve.values.length));
  const mean = curves.map(({values}) => values.slice(0, count).reduce((sum, value) => sum + (value ?? 0), 0) / Math.max(1, count));
  const said = kParts.map(({text}, part) => `${text} ${rounded(mean[part])} %`).join(', ');
  const x = (i) => count > 1 ? i / (count - 1) * kWidth : i * kWidth;
  // A task with one sample is drawn as if it had two.
  const places = count > 1 ? [...Array(count).keys()] : [0, 1];
  const below = places.map(() => 0);
  const bands = kParts.map(({text, color}, part) => {
    const valueAt = (i) => curves[part].values[Math.min(i, count - 1)] ?? 0;
    const low = [...below];
    places.forEach((i) => { below[i] += valueAt(i); });
    const y = (value) => (kHeight * (1 - value / 100)).toFixed(2);
    const points = [...places.map((i) => `${x(i).toFixed(1)},${y(below[i])}`),
      ...places.toReversed().map((i) => `${x(i).toFixed(1)},${y(low[i])}`)].join(' ');
    return svg('polygon', {points, fill: color}, svg('title', {}, `${text}: ${rounded(mean[part])} %`));
  });
  return element('section', {class: 'card', 'data-task': task},
    element('h2', {}, `Shares of a step, ${task}`),
    svg('svg', {viewBox: `0 0 ${kWidth} ${kHeight}`, class: 'shares', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${task}: ${said}`}, bands),
    element('p', {class: 'aside'}, said));
}

customElements.define('machine-panel', MachinePanel);
