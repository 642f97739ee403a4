// <runs-page>: curves of runs laid over each other, what else they show, and a table of them.
import {get} from './api.js';
import {batchOf} from './axis.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {later} from './later.js';
import {readState, writeState} from './page-state.js';
import {RunColors} from './run-colors.js';
import './media-panel.js';
import './run-picker.js';
import './run-table.js';
import './scalar-card.js';

const kPickedAtFirst = 8;

class RunsPage extends ConsolePage {
  #runs = [];
  #picked = null;
  #state = readState();
  #cards = new Map();
  #colors = new RunColors();
  #picker = element('run-picker');
  #charts = element('div', {class: 'charts'});
  #media = element('media-panel');
  #table = element('run-table', {onchange: (event) => {
    if (event.target === this.#table) this.#changed();
  }});
  #smoothing = element('input', {type: 'range', min: 0, max: 0.99, step: 0.01, id: 'smoothing',
                                 oninput: () => this.#changed()});
  #x = select('x', {step: 'steps', examples: 'examples', time: 'time of day', relative: 'time since start'}, () => this.#changed());
  #log = element('input', {type: 'checkbox', id: 'log', onchange: () => this.#changed()});
  #tags = element('input', {type: 'search', placeholder: 'Filter scalars', 'aria-label': 'Filter scalars',
                            oninput: () => this.#changed()});
  #view = select('view', {curves: 'curves', media: 'images and texts', table: 'table'}, () => this.#changed());
  #loadSoon = later(() => this.#load());

  get news() {
    return {runs: ({runs}) => this.#onNews(runs), list: () => this.#load(), connected: () => this.#load()};
  }

  connectedCallback() {
    this.#restore();
    this.append(
      element('h1', {class: 'unseen'}, 'Runs'),
      element('aside', {'aria-label': 'Runs'}, this.#picker),
      element('section', {class: 'work'},
        element('div', {class: 'toolbar', role: 'toolbar', 'aria-label': 'How curves are drawn'},
          labelled('Show', this.#view), labelled('Over', this.#x), labelled('Smoothing', this.#smoothing),
          labelled('Log scale', this.#log), this.#tags),
        this.note, this.#charts, this.#media, this.#table));
    this.#picker.addEventListener('pick', (event) => {
      this.#picked = event.detail;
      this.#changed();
    });
    this.#picker.addEventListener('filter', () => this.#changed());
    this.#picker.addEventListener('color', ({detail: {id, color}}) => {
      this.#colors.choose(id, color);
      this.#show();
    });
    this.#load();
  }

  #restore() {
    const first = (name, otherwise) => this.#state[name]?.[0] ?? otherwise;
    this.#smoothing.value = first('smooth', 0.6);
    this.#x.value = first('x', 'step');
    this.#log.checked = first('log', '') === '1';
    this.#view.value = first('view', 'curves');
    this.#tags.value = first('tags', '');
    this.#picker.filter = first('filter', '');
    this.#table.choice = {where: first('where', ''), base: first('base', ''), differences: first('differences', '')};
    this.#picked = this.#state.run ?? null;
  }

  #load() {
    return this.attempt(async () => {
      const {runs} = await get('runs', {}, this.signal);
      this.#runs = runs.sort(byName).map((run) => ({...run, key: run.id}));
      this.#show();
    });
  }

  #onNews(ids) {
    const picked = new Set(this.#chosen().map((run) => run.id));
    this.#loadSoon();
    if (!ids.some((id) => picked.has(id))) return;
    for (const card of this.#cards.values()) card.refresh();
    this.#media.refresh();
  }

  // Those of the address, or the newest that pass the filter; trials, of which there are many, only where there is nothing
  // else.
  #chosen() {
    const ids = new Set(this.#picked ?? this.#newest());
    return this.#runs.filter((run) => ids.has(run.id));
  }

  #newest() {
    const shown = this.#runs.filter((run) => this.#picker.has(run));
    const runs = shown.some((run) => !run.study) ? shown.filter((run) => !run.study) : shown;
    return runs.sort((a, b) => timeOf(b) - timeOf(a)).slice(0, kPickedAtFirst).map((run) => run.id);
  }

  #changed() {
    writeState({run: this.#picked ?? [], smooth: this.#smoothing.value === '0.6' ? '' : this.#smoothing.value,
                x: this.#x.value === 'step' ? '' : this.#x.value, log: this.#log.checked ? '1' : '',
                view: this.#view.value === 'curves' ? '' : this.#view.value, tags: this.#tags.value,
                filter: this.#picker.filter, ...this.#table.choice});
    this.#show();
  }

  #show() {
    const chosen = this.#chosen();
    this.#colors.tellApart(chosen.map((run) => run.id));
    for (const run of this.#runs) run.color = this.#colors.of(run.id);
    this.#picker.show(this.#runs, chosen.map((run) => run.id));
    const view = this.#view.value;
    this.#charts.hidden = view !== 'curves';
    this.#media.hidden = view !== 'media';
    this.#table.hidden = view !== 'table';
    this.#tags.hidden = view === 'table';
    if (view === 'table') this.#table.show(chosen);
    else if (view === 'media') this.#media.show(chosen, this.#words());
    else this.#showCards(chosen);
    this.note.textContent = this.#missing(chosen);
    this.dataset.runs = this.#runs.length;
  }

  /** Says why there is less to see than there might be. */
  #missing(chosen) {
    const {filter} = this.#picker;
    if (this.#runs.length === 0) return 'There are no runs here yet. They appear as they begin.';
    if (chosen.length === 0 && filter && this.#picked === null) return `No run matches “${filter}”.`;
    if (chosen.length === 0) return 'Choose a run to see its curves.';
    if (this.#view.value === 'curves' && this.#cards.size === 0 && this.#tags.value) return `No scalar of these runs matches “${this.#tags.value}”.`;
    if (this.#view.value === 'table' && chosen.length < this.#runs.length) return `${chosen.length} of ${this.#runs.length} runs, those that are chosen.`;
    return '';
  }

  #words() {
    return this.#tags.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  #showCards(chosen) {
    const words = this.#words();
    const tags = tagsOf(chosen).filter((tag) => words.every((word) => tag.toLowerCase().includes(word)));
    const options = {x: this.#x.value, smoothing: Number(this.#smoothing.value), isLog: this.#log.checked};
    const runs = chosen.map((run) => ({id: run.id, color: run.color, batch: batchOf(run)}));
    for (const [tag, card] of this.#cards) {
      if (tags.includes(tag)) continue;
      card.remove();
      this.#cards.delete(tag);
    }
    tags.forEach((tag, place) => {
      let card = this.#cards.get(tag);
      if (!card) {
        card = document.createElement('scalar-card');
        card.tag = tag;
        this.#cards.set(tag, card);
      }
      if (this.#charts.children[place] !== card) this.#charts.insertBefore(card, this.#charts.children[place] ?? null);
      card.show(runs, options);
    });
  }
}

// study/2 before study/10.
const collator = new Intl.Collator('en', {numeric: true});
const byName = (a, b) => collator.compare(a.id, b.id);

function timeOf(run) {
  return run.record?.began_ns ? run.record.began_ns / 1e9 : run.lastTime;
}

/** Those that training and evaluation share first: there the two are compared. */
function tagsOf(runs) {
  const weights = new Map();
  const add = (tags, weight) => {
    for (const tag of tags) weights.set(tag, (weights.get(tag) ?? 0) | weight);
  };
  for (const run of runs) {
    add(run.tags, 1);
    Object.values(run.evaluations).forEach((tags) => add(tags, 2));
  }
  return [...weights.keys()].sort((a, b) =>
    (weights.get(b) === 3) - (weights.get(a) === 3) || a.localeCompare(b));
}

function labelled(text, control) {
  return element('label', {class: 'control'}, element('span', {}, text), control);
}

function select(id, options, onchange) {
  return element('select', {id, onchange},
    Object.entries(options).map(([value, text]) => element('option', {value}, text)));
}

customElements.define('runs-page', RunsPage);
