// <compare-view>: two to five runs beside each other: flags and surroundings that differ, and metrics.
import {get} from './api.js';
import {element} from './dom.js';
import {number} from './format.js';
import {factsOf} from './run-facts.js';
import {addressOf, isOfMachine, labelOf} from './run-label.js';

const kFewest = 2;
const kMost = 5;

class CompareView extends HTMLElement {
  #asked = '';
  #runs = [];
  #details = [];
  #isAll = element('input', {type: 'checkbox', onchange: () => this.#draw()});
  #note = element('p', {class: 'note', role: 'status'});
  #tables = element('div', {class: 'stack'});

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'toolbar'}, element('label', {class: 'control'}, this.#isAll,
      element('span', {}, 'Also what is alike'))), this.#note, this.#tables);
  }

  /** Runs as the console lists them, with their colours. The first is what others are compared with. */
  show(runs) {
    this.#runs = runs;
    const isPossible = runs.length >= kFewest && runs.length <= kMost;
    this.#note.textContent = isPossible ? '' : `Choose ${kFewest} to ${kMost} runs to compare them.`;
    this.#tables.hidden = !isPossible;
    if (isPossible) this.#load();
  }

  async #load() {
    const ids = this.#runs.map((run) => run.id);
    const asked = this.#runs.map((run) => `${run.id}\n${run.step}\n${run.color}\n${labelOf(run)}`).join('\n');
    if (asked === this.#asked) return;
    this.#asked = asked;
    try {
      const details = await Promise.all(ids.map((id) => get('run', {id})));
      if (asked !== this.#asked) return;
      this.#details = details;
      this.#draw();
    } catch (error) {
      this.#note.textContent = error.message;
      this.#asked = '';
    }
  }

  #draw() {
    const groups = mergedFacts(this.#details).map(({title, rows}) => ({title, rows: rows.filter((row) => this.#isAll.checked || row.isDifferent)}))
      .filter(({rows}) => rows.length > 0);
    const metrics = mergedMetrics(this.#details);
    const tables = groups.map(({title, rows}) => this.#table(title, rows.map((row) => [row.name, row.values.map((value) => value ?? '–')])));
    if (tables.length === 0) tables.push(element('p', {class: 'note'}, 'Their records do not differ.'));
    if (metrics.length > 0) tables.push(this.#table('Metrics, last', metrics.map(({name, values}) => [name, values.map((value, i) => difference(value, i, values[0]))]), true));
    this.#tables.replaceChildren(...tables);
    this.dataset.runs = this.#details.length;
  }

  #table(title, rows, isNumber = false) {
    const head = this.#runs.map((run) => element('th', {scope: 'col', class: isNumber ? 'number' : null},
      element('a', {class: 'with-dot', href: addressOf(run), color: run.color}, element('i', {class: 'dot'}), labelOf(run))));
    return element('section', {'data-title': title}, element('h2', {}, title),
      element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title}, element('table', {},
        element('thead', {}, element('tr', {}, element('td', {}), head)),
        element('tbody', {}, rows.map(([name, values]) => element('tr', {'data-key': name}, element('th', {scope: 'row'}, name),
          values.map((value) => element('td', {class: isNumber ? 'number' : null}, element('span', {class: isNumber ? null : 'wrapped'}, value)))))))));
  }
}

/** The facts of all, each with the value of every run. */
function mergedFacts(details) {
  const facts = details.map((run) => factsOf(run.record));
  const titles = [...new Set(facts.flat().map((group) => group.title))];
  return titles.map((title) => {
    const maps = facts.map((groups) => groups.find((group) => group.title === title)?.rows ?? new Map());
    const names = [...new Set(maps.flatMap((map) => [...map.keys()]))];
    return {title, rows: names.map((name) => {
      const values = maps.map((map) => map.get(name));
      return {name, values, isDifferent: new Set(values).size > 1};
    })};
  });
}

/** The last values of all scalars that at least two runs have. */
function mergedMetrics(details) {
  const maps = details.map((run) => new Map(run.scalars.filter((one) => !isOfMachine(one)).map((one) =>
    [one.evaluation ? `${one.evaluation}: ${one.tag}` : one.tag, one.last.value])));
  const names = [...new Set(maps.flatMap((map) => [...map.keys()]))].sort();
  return names.map((name) => ({name, values: maps.map((map) => map.get(name) ?? null)}))
    .filter(({values}) => values.filter((value) => value !== null).length > 1);
}

function difference(value, place, base) {
  if (place === 0 || value === null || base === null || value === base) return number(value);
  const by = value - base;
  return `${number(value)} (${by > 0 ? '+' : '−'}${number(Math.abs(by))})`;
}

customElements.define('compare-view', CompareView);
