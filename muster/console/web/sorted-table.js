// <sorted-table>: rows that are sorted by a click on a column's name.
import {element} from './dom.js';

class SortedTable extends HTMLElement {
  #columns = [];
  #rows = [];
  #by = '';
  #isReverse = false;

  /**
   * Columns are {name, label, value(row), cell(row), isNumber}; rows anything, with a `key`. onOpen(row) makes rows
   * that can be opened; `empty` is shown instead of rows where there are none.
   */
  show(columns, rows, {label = '', by = '', isReverse = false, onOpen = null, empty = ''} = {}) {
    this.#columns = columns;
    this.#rows = rows;
    if (!columns.some((column) => column.name === this.#by)) {
      this.#by = by;
      this.#isReverse = isReverse;
    }
    this.#label = this.dataset.label = label;
    this.#onOpen = onOpen;
    this.#empty = empty;
    this.#draw();
  }

  #label = '';
  #onOpen = null;
  #empty = '';

  #sorted() {
    const column = this.#columns.find((one) => one.name === this.#by);
    if (!column) return this.#rows;
    const order = (a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      // Missing values come last, whichever way round.
      const missing = (one) => one === null || one === undefined || Number.isNaN(one);
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const sign = x < y ? -1 : x > y ? 1 : 0;
      return this.#isReverse ? -sign : sign;
    };
    return [...this.#rows].sort(order);
  }

  #sortBy(column) {
    this.#isReverse = this.#by === column.name ? !this.#isReverse : false;
    this.#by = column.name;
    this.#draw();
    this.querySelector(`th[data-column="${CSS.escape(column.name)}"] button`)?.focus();
  }

  #draw() {
    const head = element('tr', {}, this.#columns.map((column) => element('th', {
      scope: 'col',
      class: column.isNumber ? 'number' : null,
      'data-column': column.name,
      'aria-sort': this.#by === column.name ? (this.#isReverse ? 'descending' : 'ascending') : null,
    }, column.label ? element('button', {onclick: () => this.#sortBy(column)}, column.label) :
      element('span', {class: 'unseen'}, 'actions'))));
    const rows = this.#sorted().map((row) => element('tr', {
      'data-key': row.key ?? null,
      class: this.#onOpen ? 'can-open' : null,
      onclick: this.#onOpen ? () => this.#onOpen(row) : null,
    }, this.#columns.map((column) => element('td', {class: column.isNumber ? 'number' : null}, column.cell(row)))));
    if (rows.length === 0 && this.#empty) rows.push(element('tr', {class: 'none'}, element('td', {colspan: this.#columns.length}, this.#empty)));
    const scroll = this.firstElementChild?.scrollLeft ?? 0;
    this.replaceChildren(element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': this.#label},
      element('table', {}, element('caption', {class: 'unseen'}, this.#label),
        element('thead', {}, head), element('tbody', {}, rows))));
    this.firstElementChild.scrollLeft = scroll;
  }
}

customElements.define('sorted-table', SortedTable);
