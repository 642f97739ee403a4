// <studies-page>: hyperparameter studies, and one of them.
import {get} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {number} from './format.js';
import {readState, writeState} from './page-state.js';
import './sorted-table.js';
import './study-view.js';

class StudiesPage extends ConsolePage {
  #view = null;
  #title = element('h1', {class: 'unseen'}, 'Studies');
  #table = element('sorted-table');
  #back = element('button', {class: 'quiet', onclick: () => this.#open('')}, '← all studies');

  get news() {
    return {studies: () => this.#load(), connected: () => this.#load()};
  }

  connectedCallback() {
    this.classList.add('page');
    this.append(this.#title, element('div', {class: 'toolbar'}, this.#back), this.note, this.#table);
    this.#open(readState().study?.[0] ?? '');
  }

  #open(id) {
    this.#view?.remove();
    this.#view = null;
    this.#title.hidden = this.#table.hidden = id !== '';
    this.#back.hidden = id === '';
    writeState({study: id});
    if (id) {
      this.#view = document.createElement('study-view');
      this.#view.study = id;
      this.append(this.#view);
    }
    this.#load();
  }

  #load() {
    this.#view?.refresh();
    return this.attempt(async () => {
      const {studies} = await get('studies', {}, this.signal);
      this.note.textContent = studies.length === 0 ? 'There are no studies here: muster tune makes one.' : '';
      this.#table.show(columns, studies.map((study) => ({...study, key: study.id})),
        {label: 'Studies', by: 'id', onOpen: (study) => this.#open(study.id)});
      this.dataset.studies = studies.length;
    });
  }
}

const countOf = (study) => Object.values(study.states ?? {}).reduce((sum, count) => sum + count, 0);

const columns = [
  {name: 'id', label: 'study', value: (study) => study.id, cell: (study) => element('button', {class: 'link'}, study.id)},
  {name: 'metric', label: 'metric', value: (study) => study.metric, cell: (study) => study.metric ?? study.problem},
  {name: 'best', label: 'best', value: (study) => study.best?.value ?? null, isNumber: true,
   cell: (study) => number(study.best?.value ?? null)},
  {name: 'trials', label: 'trials', value: countOf, isNumber: true, cell: (study) => `${countOf(study)} of ${study.maxTrials ?? '–'}`},
  {name: 'running', label: 'running', value: (study) => study.states?.RUNNING ?? 0, isNumber: true,
   cell: (study) => number(study.states?.RUNNING ?? 0)},
  {name: 'failed', label: 'failed', value: (study) => study.states?.FAILED ?? 0, isNumber: true,
   cell: (study) => number(study.states?.FAILED ?? 0)},
];

customElements.define('studies-page', StudiesPage);
