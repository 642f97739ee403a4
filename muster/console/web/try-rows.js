// <try-rows>: rows that are asked together, each a value of an instance. Tells 'changed' when one is removed.
import {element} from './dom.js';

const kMostLetters = 90;

/** One row as a short text. */
export function rowText(row) {
  const values = typeof row === 'object' && row !== null && !Array.isArray(row) ? Object.values(row) : [row];
  const text = values.map((value) => typeof value === 'string' ? value : JSON.stringify(value)).join(', ');
  return text.length > kMostLetters ? `${text.slice(0, kMostLetters)}…` : text;
}

class TryRows extends HTMLElement {
  #rows = [];
  #list = element('ol', {class: 'asked-rows'});

  connectedCallback() {
    if (this.childElementCount === 0) this.append(this.#list);
    this.#draw();
  }

  get rows() {
    return this.#rows;
  }

  add(row) {
    this.#rows.push(row);
    this.#draw();
  }

  clear() {
    this.#rows = [];
    this.#draw();
  }

  #draw() {
    this.hidden = this.#rows.length === 0;
    this.#list.replaceChildren(...this.#rows.map((row, i) => element('li', {}, element('span', {class: 'clipped'}, rowText(row)),
      element('button', {type: 'button', class: 'quiet', 'aria-label': `Remove row ${i + 1}`, onclick: () => this.#remove(i)}, 'remove'))));
  }

  #remove(place) {
    this.#rows.splice(place, 1);
    this.#draw();
    this.dispatchEvent(new CustomEvent('changed'));
  }
}

customElements.define('try-rows', TryRows);
