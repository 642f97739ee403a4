// <run-picker>: all runs, to choose from, with trials folded below their study. Tells 'pick' with the ids that are chosen,
// 'color' with {id, color}, and 'filter'.
import {element} from './dom.js';
import {labelOf, notesOf, searchTextOf} from './run-label.js';
import './run-row.js';
import './study-row.js';

// More rows than these are not read but searched.
const kMostRows = 200;

class RunPicker extends HTMLElement {
  #runs = [];
  #picked = new Set();
  #open = new Set();
  // Rows by the id of their run or study: they stay while the list changes, and with them focus and open menus.
  #rows = new Map();
  // By run: what it is searched by.
  #texts = new WeakMap();
  #filter = element('input', {type: 'search', placeholder: 'Filter runs', 'aria-label': 'Filter runs',
                              oninput: () => this.dispatchEvent(new CustomEvent('filter'))});
  #all = element('button', {class: 'quiet', onclick: () => this.#pickAll()}, 'all');
  #none = element('button', {class: 'quiet', onclick: () => this.#pick([])}, 'none');
  #list = element('ul', {class: 'runs-list'});
  #archived = element('input', {type: 'checkbox', onchange: () => this.dispatchEvent(new CustomEvent('filter'))});
  #archivedText = element('span');
  #archivedLine = element('label', {class: 'control archived', hidden: true}, this.#archived, this.#archivedText);

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'picker-head'}, this.#filter, this.#all, this.#none), this.#list, this.#archivedLine);
    const on = (name, act) => this.#list.addEventListener(name, ({detail}) => act(detail));
    on('toggle', ({id, isPicked}) => this.#toggle([id], isPicked));
    on('toggleall', ({id, isPicked}) => this.#toggle(this.#shown().filter((run) => run.study === id).map((run) => run.id), isPicked));
    on('fold', ({id}) => this.#turn(id));
    on('color', (detail) => this.dispatchEvent(new CustomEvent('color', {detail})));
  }

  get filter() {
    return this.#filter.value;
  }

  set filter(text) {
    this.#filter.value = text;
  }

  /** Runs as the console lists them, with a colour each, the set of the chosen ids, and how many are archived. */
  show(runs, picked, archived) {
    this.#runs = runs;
    this.#archivedLine.hidden = archived === 0;
    this.#archivedText.textContent = `${archived} archived`;
    this.#picked = new Set(picked);
    this.#draw();
  }

  /** Those of some runs that have all words of the filter, in their name, that of their folder or their tags. */
  matching(runs) {
    const words = this.#filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return words.length === 0 ? [...runs] : runs.filter((run) => words.every((word) => this.#textOf(run).includes(word)));
  }

  #textOf(run) {
    if (!this.#texts.has(run)) this.#texts.set(run, searchTextOf(run));
    return this.#texts.get(run);
  }

  get showsArchived() {
    return this.#archived.checked;
  }

  set showsArchived(isShown) {
    this.#archived.checked = isShown;
  }

  #shown() {
    return this.matching(this.#runs);
  }

  #draw() {
    const shown = this.#shown();
    const entries = [];
    const studies = new Map();
    for (const run of shown) {
      if (!run.study) entries.push(run);
      else if (studies.has(run.study)) studies.get(run.study).push(run);
      else {
        studies.set(run.study, [run]);
        entries.push(run.study);
      }
    }
    const seen = entries.filter((entry, place) => place < kMostRows || this.#picked.has(entry.id));
    const all = seen.map((entry) => typeof entry === 'string' ? this.#studyItem(entry, studies.get(entry)) :
      this.#itemOf(entry, labelOf(entry)));
    if (seen.length < entries.length) all.push(element('li', {class: 'none more'}, `and ${entries.length - seen.length} more: filter them`));
    if (shown.length === 0) all.push(element('li', {class: 'none'}, this.#runs.length === 0 ? 'no runs' : 'no run matches the filter'));
    setChildren(this.#list, all);
  }

  #itemOf(run, name) {
    const item = this.#row(`run ${run.id}`, 'run-row', {'data-run': run.id});
    item.style.setProperty('--color', run.color);
    item.firstElementChild.show(run, name, this.#picked.has(run.id));
    return item;
  }

  // A study with a match is open.
  #isOpen(id) {
    return this.#open.has(id) || this.#filter.value !== '';
  }

  #studyItem(id, trials) {
    const item = this.#row(`study ${id}`, 'study-row', {'data-study': id}, element('ul'));
    const picked = trials.filter((run) => this.#picked.has(run.id)).length;
    item.firstElementChild.show(id, trials.length, picked, this.#isOpen(id));
    const rows = this.#isOpen(id) ? trials.slice(0, kMostRows).map((run) => this.#itemOf(run, notesOf(run).name || `trial ${run.id.split('/').at(-1)}`)) : [];
    setChildren(item.lastElementChild, rows);
    item.lastElementChild.hidden = rows.length === 0;
    return item;
  }

  #row(key, component, attributes, ...more) {
    let item = this.#rows.get(key);
    if (!item) {
      item = element('li', attributes, document.createElement(component), ...more);
      this.#rows.set(key, item);
    }
    return item;
  }

  #turn(id) {
    if (!this.#open.delete(id)) this.#open.add(id);
    this.#draw();
  }

  #toggle(ids, isPicked) {
    for (const id of ids) {
      if (isPicked) this.#picked.add(id);
      else this.#picked.delete(id);
    }
    this.#pick([...this.#picked]);
  }

  // Those that are seen: no trials of a study that is folded.
  #pickAll() {
    this.#pick(this.#shown().filter((run) => !run.study || this.#isOpen(run.study)).map((run) => run.id));
  }

  #pick(ids) {
    this.dispatchEvent(new CustomEvent('pick', {detail: ids}));
  }
}

/** Leaves children alone that are those wanted: taken out and put in again, they would lose the focus. */
function setChildren(parent, children) {
  const isSame = children.length === parent.children.length && children.every((child, i) => child === parent.children[i]);
  if (isSame) return;
  const focused = document.activeElement;
  parent.replaceChildren(...children);
  if (parent.contains(focused)) focused.focus();
}

customElements.define('run-picker', RunPicker);
