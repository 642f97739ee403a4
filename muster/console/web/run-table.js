// <run-table>: runs with their metrics and hyperparameters: sorted, filtered, compared. Tells 'change' with {where, base,
// differences} when the reader chooses.
import {element} from './dom.js';
import {number} from './format.js';
import {runColumns} from './run-columns.js';
import {comparedWith, differing, runFilter} from './run-filter.js';
import './sorted-table.js';

class RunTable extends HTMLElement {
  #runs = [];
  #where = element('input', {type: 'search', placeholder: 'accuracy>0.8 small', 'aria-label': 'Filter the table',
                             title: 'Words of a name, and conditions on columns', oninput: () => this.#choose()});
  #base = element('select', {'aria-label': 'Compare with', onchange: () => this.#choose()});
  #differences = element('input', {type: 'checkbox', onchange: () => this.#choose()});
  #table = element('sorted-table');

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'toolbar'}, this.#where,
      element('label', {class: 'control'}, element('span', {}, 'Compare with'), this.#base),
      element('label', {class: 'control'}, element('span', {}, 'Only what differs'), this.#differences)), this.#table);
  }

  /** What the reader has chosen. */
  get choice() {
    return {where: this.#where.value, base: this.#base.value, differences: this.#differences.checked ? '1' : ''};
  }

  set choice({where, base, differences}) {
    this.#where.value = where;
    this.#base.replaceChildren(element('option', {value: base}, base || 'nothing'));
    this.#base.value = base;
    this.#differences.checked = differences === '1';
  }

  show(runs) {
    this.#runs = runs;
    const base = this.#base.value;
    this.#base.replaceChildren(element('option', {value: ''}, 'nothing'), ...runs.map((run) => element('option', {value: run.id}, run.id)));
    this.#base.value = runs.some((run) => run.id === base) ? base : '';
    this.#draw();
  }

  #choose() {
    this.dispatchEvent(new CustomEvent('change', {detail: this.choice}));
    this.#draw();
  }

  #draw() {
    let columns = runColumns(this.#runs);
    const shown = this.#runs.filter(runFilter(this.#where.value, columns));
    if (this.#differences.checked) columns = differing(columns, shown);
    const base = this.#runs.find((run) => run.id === this.#base.value);
    if (base) columns = comparedWith(columns, base, number);
    this.#table.show(columns, shown, {label: 'Runs', by: 'time', isReverse: true,
      empty: this.#where.value && this.#runs.length > 0 ? `No run matches “${this.#where.value}”.` : ''});
    this.dataset.rows = shown.length;
  }
}

customElements.define('run-table', RunTable);
