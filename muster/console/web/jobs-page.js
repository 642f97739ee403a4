// <jobs-page>: the jobs of a folder, and one of them.
import {get} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {duration, moment, number} from './format.js';
import {later} from './later.js';
import {readState, writeState} from './page-state.js';
import './job-view.js';
import './sorted-table.js';

class JobsPage extends ConsolePage {
  #state = readState();
  #jobs = [];
  #view = null;
  #title = element('h1', {class: 'unseen'}, 'Jobs');
  #table = element('sorted-table');
  #filter = element('input', {type: 'search', placeholder: 'Filter by name, state or label',
                              'aria-label': 'Filter jobs', oninput: () => this.#show()});
  #back = element('button', {class: 'quiet', onclick: () => this.#open('')}, '← all jobs');
  #loadSoon = later(() => this.#load(), 500);

  get news() {
    return {jobs: this.#loadSoon, connected: () => this.#load()};
  }

  connectedCallback() {
    this.classList.add('page');
    this.append(this.#title, element('div', {class: 'toolbar'}, this.#back, this.#filter),
      this.note, this.#table);
    this.#open(this.#state.job?.[0] ?? '');
  }

  #load() {
    this.#view?.refresh();
    return this.attempt(async () => {
      this.#jobs = (await get('jobs', {}, this.signal)).jobs;
      this.#show();
    });
  }

  #open(name) {
    this.#view?.remove();
    this.#view = null;
    this.#title.hidden = this.#table.hidden = this.#filter.hidden = name !== '';
    this.#back.hidden = name === '';
    writeState({job: name});
    if (name) {
      this.#view = document.createElement('job-view');
      this.#view.name = name;
      this.#view.addEventListener('open', (event) => this.#open(event.detail));
      this.append(this.#view);
    }
    this.#load();
  }

  #show() {
    const words = this.#filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (job) => `${job.name} ${job.state} ${Object.entries(job.labels).flat().join(' ')}`.toLowerCase();
    const rows = this.#jobs.filter((job) => words.every((word) => text(job).includes(word)))
      .map((job) => ({...job, key: job.name}));
    const places = placesOf(this.#jobs);
    rows.forEach((job) => { job.place = places.get(job.name) ?? null; });
    this.note.textContent = this.#jobs.length === 0 && !this.#view ? 'There are no jobs yet: muster jobs submit makes one.' : '';
    this.#table.show(columns, rows, {label: 'Jobs', by: 'created', isReverse: true, onOpen: (job) => this.#open(job.name),
      empty: words.length > 0 && this.#jobs.length > 0 ? `No job matches “${this.#filter.value}”.` : ''});
    this.dataset.jobs = this.#jobs.length;
  }
}

const tookOf = (job) => job.started ? (job.ended ?? Date.now() / 1000) - job.started : null;

/** Places in the queue of this host: the higher priority first, then the older job. */
function placesOf(jobs) {
  const waiting = jobs.filter((job) => job.state === 'QUEUED' && job.backEnd === 'local').sort((a, b) => b.priority - a.priority || a.created - b.created);
  return new Map(waiting.map((job, place) => [job.name, place + 1]));
}

const columns = [
  {name: 'name', label: 'job', value: (job) => job.name, cell: (job) => element('button', {class: 'link'}, job.name)},
  {name: 'state', label: 'state', value: (job) => job.state,
   cell: (job) => element('span', {class: `pill ${job.state.toLowerCase()}`}, job.state.toLowerCase())},
  {name: 'place', label: 'queue', value: (job) => job.place, isNumber: true, cell: (job) => job.place === null ? '' : `${job.place}.`},
  {name: 'kind', label: 'kind', value: (job) => job.kind, cell: (job) => job.kind},
  {name: 'created', label: 'created', value: (job) => job.created, isNumber: true, cell: (job) => moment(job.created)},
  {name: 'took', label: 'took', value: tookOf, isNumber: true, cell: (job) => tookOf(job) === null ? '–' : duration(tookOf(job))},
  {name: 'step', label: 'step', value: (job) => job.progress?.step ?? null, isNumber: true,
   cell: (job) => number(job.progress?.step ?? null)},
  {name: 'labels', label: 'labels', value: (job) => JSON.stringify(job.labels),
   cell: (job) => element('span', {class: 'aside'}, Object.entries(job.labels).map(([key, value]) => `${key}=${value}`).join(' '))},
];

customElements.define('jobs-page', JobsPage);
