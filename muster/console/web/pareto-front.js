// <pareto-front>: the trials of a study with several goals over two of them; those that no other is better than are joined.
import {element, svg} from './dom.js';
import {number} from './format.js';

const [kWidth, kHeight, kEdge] = [420, 260, 56];

class ParetoFront extends HTMLElement {
  #study = null;
  #x = element('select', {'aria-label': 'Goal across', onchange: () => this.#draw()});
  #y = element('select', {'aria-label': 'Goal upwards', onchange: () => this.#draw()});
  #picture = element('div');

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'toolbar'}, element('label', {class: 'control'}, element('span', {}, 'Across'), this.#x),
      element('label', {class: 'control'}, element('span', {}, 'Upwards'), this.#y)), this.#picture);
  }

  /** A study with `goals`, as `study` has it. */
  show(study) {
    if (this.#study?.id !== study.id) {
      [this.#x, this.#y].forEach((select, place) => select.replaceChildren(...study.goals.map(({metric, isMaximized}, i) =>
        element('option', {value: i, selected: i === place}, `${metric}, ${isMaximized ? 'maximized' : 'minimized'}`))));
    }
    this.#study = study;
    this.#draw();
  }

  #draw() {
    const [a, b] = [Number(this.#x.value), Number(this.#y.value)];
    const {goals, trials} = this.#study;
    const points = trials.map(({trialId, goals: values, isOnFront}) => ({id: trialId, x: values?.[a], y: values?.[b], isOnFront}))
      .filter(({x, y}) => typeof x === 'number' && typeof y === 'number');
    const front = points.filter(({isOnFront}) => isOnFront).sort((p, q) => p.x - q.x);
    Object.assign(this.dataset, {trials: points.length, front: front.length});
    if (points.length === 0) return this.#picture.replaceChildren(element('p', {class: 'note'}, 'No trial has both metrics yet.'));
    const [x, y] = [scaleOf(points.map((one) => one.x), kEdge, kWidth - 12), scaleOf(points.map((one) => one.y), kHeight - 34, 12)];
    const said = `${front.length} of ${points.length} trials are on the Pareto front of ${goals[a].metric} and ${goals[b].metric}: ` +
      front.slice(0, 8).map((one) => `trial ${one.id} (${number(one.x)}, ${number(one.y)})`).join(', ');
    const text = (attributes, words) => svg('text', {class: 'axis-end', ...attributes}, words);
    this.#picture.replaceChildren(svg('svg', {viewBox: `0 0 ${kWidth} ${kHeight}`, class: 'pareto', role: 'img', 'aria-label': said},
      svg('polyline', {points: front.map((one) => `${x.at(one.x)},${y.at(one.y)}`).join(' '), class: 'front-line'}),
      points.map((one) => svg('circle', {cx: x.at(one.x), cy: y.at(one.y), r: one.isOnFront ? 5 : 3.5, class: one.isOnFront ? 'on-front' : 'off-front'},
        svg('title', {}, `trial ${one.id}: ${number(one.x)}, ${number(one.y)}`))),
      text({x: kEdge, y: kHeight - 18}, number(x.low)), text({x: kWidth - 12, y: kHeight - 18, 'text-anchor': 'end'}, number(x.high)),
      text({x: (kEdge + kWidth) / 2, y: kHeight - 4, 'text-anchor': 'middle'}, goals[a].metric),
      text({x: kEdge - 6, y: kHeight - 34, 'text-anchor': 'end'}, number(y.low)), text({x: kEdge - 6, y: 16, 'text-anchor': 'end'}, number(y.high)),
      text({x: 0, y: 0, 'text-anchor': 'middle', transform: `translate(12 ${kHeight / 2}) rotate(-90)`}, goals[b].metric)),
      element('p', {class: 'aside'}, said));
  }
}

function scaleOf(values, from, to) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const span = high - low || 1;
  return {low, high, at: (value) => Number((from + (value - low) / span * (to - from)).toFixed(1))};
}

customElements.define('pareto-front', ParetoFront);
