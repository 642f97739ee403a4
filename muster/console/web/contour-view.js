// <contour-view>: the metric over two parameters, as a model of all trials expects it, and the trials.
import {get} from './api.js';
import {element, svg} from './dom.js';
import {number} from './format.js';

const kSize = 300;
const kEdge = 46;
// From the worst to the best: light to dark, told apart also without colours.
const kColors = ['#f2f0f7', '#dadaeb', '#bcbddc', '#9e9ac8', '#807dba', '#6a51a3', '#54278f', '#3f007d'];

class ContourView extends HTMLElement {
  #study = null;
  #asked = '';
  #x = element('select', {'aria-label': 'Across', onchange: () => this.#load()});
  #y = element('select', {'aria-label': 'Upwards', onchange: () => this.#load()});
  #note = element('p', {class: 'note', role: 'status'});
  #picture = element('div');

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'toolbar'}, element('label', {class: 'control'}, element('span', {}, 'Across'), this.#x),
      element('label', {class: 'control'}, element('span', {}, 'Upwards'), this.#y)), this.#note, this.#picture);
  }

  /** A study as `study` has it; the two parameters that count most are chosen at first. */
  show(study) {
    const names = [...study.parameters].sort((a, b) => (b.importance ?? 0) - (a.importance ?? 0)).map(({name}) => name);
    const isOther = this.#study?.id !== study.id;
    this.#study = study;
    if (names.length < 2) return;
    if (isOther) {
      [this.#x, this.#y].forEach((select, place) =>
        select.replaceChildren(...names.map((name, i) => element('option', {value: name, selected: i === place}, name))));
    }
    this.#load();
  }

  async #load() {
    const {id, trials} = this.#study;
    const [x, y] = [this.#x.value, this.#y.value];
    const asked = `${id} ${x} ${y} ${trials.filter((trial) => trial.finalMetric).length}`;
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#note.textContent = x === y ? 'Choose two parameters.' : '';
    if (x === y) return this.#picture.replaceChildren();
    try {
      const contour = await get('study.contour', {id, x, y});
      if (asked !== this.#asked) return;
      if (!contour.means) this.#note.textContent = 'From eight trials with different metrics on, a model tells what to expect between them.';
      this.#picture.replaceChildren(...(contour.means ? [this.#draw(contour, x, y)] : []));
      this.dataset.places = contour.means?.length ?? 0;
    } catch (error) {
      this.#note.textContent = error.message;
      this.#asked = '';
    }
  }

  #draw({x: xs, y: ys, means, deviations, trials}, x, y) {
    const low = Math.min(...means);
    const high = Math.max(...means);
    const goodness = (value) => {
      const share = high > low ? (value - low) / (high - low) : 0.5;
      return this.#study.isMaximized ? share : 1 - share;
    };
    const cell = kSize / xs.length;
    const best = means.reduce((at, value, i) => goodness(value) > goodness(means[at]) ? i : at, 0);
    const rects = means.map((value, i) => {
      const [column, row] = [i % xs.length, Math.floor(i / xs.length)];
      return svg('rect', {x: kEdge + column * cell, y: kSize - (row + 1) * cell, width: cell + 0.3, height: cell + 0.3,
        fill: kColors[Math.min(kColors.length - 1, Math.floor(goodness(value) * kColors.length))]},
        svg('title', {}, `${x} ${shown(xs[column])}, ${y} ${shown(ys[row])}: ${number(value)} ± ${number(deviations[i])}`));
    });
    const dots = trials.map((trial) => svg('circle', {cx: kEdge + trial.x * kSize, cy: kSize - trial.y * kSize, r: 3.5, class: 'contour-trial'},
      svg('title', {}, `trial ${trial.id}: ${number(trial.value)}`)));
    const text = (attributes, words) => svg('text', {class: 'axis-end', ...attributes}, words);
    const said = `The metric over ${x} and ${y}, expected best near ${x} ${shown(xs[best % xs.length])} and ${y} ` +
      `${shown(ys[Math.floor(best / xs.length)])}: ${number(means[best])}`;
    return element('div', {}, svg('svg', {viewBox: `0 -6 ${kSize + kEdge + 10} ${kSize + 44}`, class: 'contour', role: 'img', 'aria-label': said}, rects, dots,
      text({x: kEdge, y: kSize + 15}, shown(xs[0])), text({x: kEdge + kSize, y: kSize + 15, 'text-anchor': 'end'}, shown(xs.at(-1))),
      text({x: kEdge + kSize / 2, y: kSize + 30, 'text-anchor': 'middle'}, x),
      text({x: kEdge - 4, y: kSize, 'text-anchor': 'end'}, shown(ys[0])), text({x: kEdge - 4, y: 8, 'text-anchor': 'end'}, shown(ys.at(-1))),
      text({x: 0, y: 0, 'text-anchor': 'middle', transform: `translate(12 ${kSize / 2}) rotate(-90)`}, y)),
      element('p', {class: 'aside'}, `${said}. Darker is better; dots are trials; other parameters are those of the best one.`));
  }
}

/** "0.0037214" of 0.0037214333; a text as it is. */
function shown(value) {
  return value !== '' && Number.isFinite(Number(value)) ? number(Number(Number(value).toPrecision(3))) : value;
}

customElements.define('contour-view', ContourView);
