// <run-picker>: all runs, to choose from. Tells 'pick' with the ids that are chosen, and 'filter'.
import {element} from './dom.js';
import {number} from './format.js';

class RunPicker extends HTMLElement {
  #runs = [];
  #picked = new Set();
  #filter = element('input', {type: 'search', placeholder: 'Filter runs', 'aria-label': 'Filter runs',
                              oninput: () => this.dispatchEvent(new CustomEvent('filter'))});
  #all = element('button', {class: 'quiet', onclick: () => this.#pickAll()}, 'all');
  #none = element('button', {class: 'quiet', onclick: () => this.#pick([])}, 'none');
  #list = element('ul', {class: 'runs-list'});

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'picker-head'}, this.#filter, this.#all, this.#none), this.#list);
  }

  get filter() {
    return this.#filter.value;
  }

  set filter(text) {
    this.#filter.value = text;
  }

  /** Runs as the console lists them, with a colour each, and the set of the chosen ids. */
  show(runs, picked) {
    this.#runs = runs;
    this.#picked = new Set(picked);
    this.#draw();
  }

  /** Whether a run has all words of the filter. */
  has(run) {
    const words = this.#filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return words.every((word) => run.id.toLowerCase().includes(word));
  }

  #shown() {
    return this.#runs.filter((run) => this.has(run));
  }

  #draw() {
    const items = this.#shown().map((run) => element('li', {color: run.color, 'data-run': run.id},
      element('label', {title: run.problem || run.id},
        element('input', {type: 'checkbox', checked: this.#picked.has(run.id),
                          onchange: (event) => this.#toggle(run.id, event.target.checked)}),
        element('i', {class: 'dot'}),
        element('span', {class: 'name'}, run.id),
        run.problem ? element('span', {class: 'warn', role: 'img', 'aria-label': 'has a problem'}, '!') : null,
        element('span', {class: 'aside'}, run.isRead ? number(run.step) : '…'))));
    if (items.length === 0) items.push(element('li', {class: 'none'}, 'no runs'));
    const focused = document.activeElement?.closest('li')?.dataset.run;
    this.#list.replaceChildren(...items);
    if (focused) this.#list.querySelector(`li[data-run="${CSS.escape(focused)}"] input`)?.focus();
  }

  #toggle(id, isPicked) {
    if (isPicked) this.#picked.add(id);
    else this.#picked.delete(id);
    this.#pick([...this.#picked]);
  }

  #pickAll() {
    this.#pick(this.#shown().map((run) => run.id));
  }

  #pick(ids) {
    this.dispatchEvent(new CustomEvent('pick', {detail: ids}));
  }
}

customElements.define('run-picker', RunPicker);
