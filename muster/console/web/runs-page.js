// <runs-page>: curves of runs laid over each other, what else they show, and a table of them.
import {get} from './api.js';
import {batchOf} from './axis.js';
import {ChartLayout} from './chart-layout.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {later} from './later.js';
import {readState, writeState} from './page-state.js';
import {RunColors} from './run-colors.js';
import {isOfMachine, labelOf, notesOf} from './run-label.js';
import './compare-view.js';
import './media-panel.js';
import './run-picker.js';
import './run-table.js';
import './scalar-card.js';

const kPickedAtFirst = 8;

class RunsPage extends ConsolePage {
  #all = [];
  // Those that are not archived, or all of them.
  #runs = [];
  #picked = null;
  #state = readState();
  #cards = new Map();
  #colors = new RunColors('muster-run-colors');
  #groupColors = new RunColors('muster-group-colors');
  #picker = element('run-picker');
  #charts = element('div', {class: 'charts'});
  #media = element('media-panel');
  #compare = element('compare-view');
  // By tag: the part of a chart's axis that is seen.
  #ranges = new Map();
  #layout = new ChartLayout(this.#state);
  // Tags in the order that they have of themselves.
  #usual = [];
  // The cursor that other charts are to show.
  #mark = null;
  #table = element('run-table', {onchange: (event) => {
    if (event.target === this.#table) this.#changed();
  }});
  #smoothing = element('input', {type: 'range', min: 0, max: 0.99, step: 0.01, id: 'smoothing',
                                 oninput: () => this.#changed()});
  #x = select('x', {step: 'steps', examples: 'examples', time: 'time of day', relative: 'time since start'}, () => this.#changeAxis());
  #log = element('input', {type: 'checkbox', id: 'log', onchange: () => this.#changed()});
  #trim = element('input', {type: 'checkbox', id: 'trim', onchange: () => this.#changed()});
  #group = element('select', {id: 'group', onchange: () => this.#changed()}, element('option', {value: ''}, 'nothing'));
  #tags = element('input', {type: 'search', placeholder: 'Filter scalars', 'aria-label': 'Filter scalars',
                            oninput: () => this.#changed()});
  #view = select('view', {curves: 'curves', media: 'images and texts', table: 'table', compare: 'comparison'}, () => this.#changed());
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
          labelled('Log scale', this.#log), labelled('Without outliers', this.#trim),
          labelled('Group by', this.#group), this.#tags),
        this.note, this.#compare, this.#charts, this.#media, this.#table));
    this.#charts.addEventListener('cursor', ({target, detail}) => this.#markOthers(target.closest('scalar-card'), detail));
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
    this.#trim.checked = first('trim', '') === '1';
    const group = first('group', '');
    if (group) this.#group.append(element('option', {value: group, selected: true}, group));
    this.#picker.showsArchived = first('archived', '') === '1';
    for (const text of this.#state.range ?? []) {
      const [, from, to, tag] = /^([^,]+),([^,]+),(.*)$/s.exec(text) ?? [];
      if (Number.isFinite(Number(from)) && Number(from) < Number(to)) this.#ranges.set(tag, [Number(from), Number(to)]);
    }
    this.#view.value = first('view', 'curves');
    this.#tags.value = first('tags', '');
    this.#picker.filter = first('filter', '');
    this.#table.choice = {where: first('where', ''), base: first('base', ''), differences: first('differences', '')};
    this.#picked = this.#state.run ?? null;
  }

  #load() {
    return this.attempt(async () => {
      const {runs, tagSets} = await get('runs', {}, this.signal);
      for (const run of runs) Object.assign(run, tagSets?.[run.tagSet]);
      this.#all = runs.map((run) => ({...run, key: run.id, isPinned: notesOf(run).isPinned, isArchived: notesOf(run).isArchived}))
        .sort((a, b) => b.isPinned - a.isPinned || byName(a, b));
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
    const shown = this.#picker.matching(this.#runs);
    const runs = shown.some((run) => !run.study) ? shown.filter((run) => !run.study) : shown;
    const order = (a, b) => b.isPinned - a.isPinned || timeOf(b) - timeOf(a);
    return runs.sort(order).slice(0, kPickedAtFirst).map((run) => run.id);
  }

  #changed() {
    this.#write();
    this.#show();
  }

  #write() {
    writeState({run: this.#picked ?? [], smooth: this.#smoothing.value === '0.6' ? '' : this.#smoothing.value,
                x: this.#x.value === 'step' ? '' : this.#x.value, log: this.#log.checked ? '1' : '',
                view: this.#view.value === 'curves' ? '' : this.#view.value, tags: this.#tags.value,
                filter: this.#picker.filter, trim: this.#trim.checked ? '1' : '', group: this.#group.value,
                archived: this.#picker.showsArchived ? '1' : '',
                range: [...this.#ranges].map(([tag, [from, to]]) => `${from},${to},${tag}`), ...this.#layout.state, ...this.#table.choice});
  }

  // The cursors of all charts go together, once per picture of the screen.
  #markOthers(card, x) {
    const isAsked = this.#mark !== null;
    this.#mark = {card, x};
    if (isAsked) return;
    requestAnimationFrame(() => {
      const mark = this.#mark;
      this.#mark = null;
      for (const other of this.#cards.values()) if (other !== mark.card) other.markAt(mark.x);
    });
  }

  // A range is one of steps, or of seconds.
  #changeAxis() {
    this.#ranges.clear();
    this.#changed();
  }

  // A range is one of the curves that are drawn: with it, the address names them.
  #setRange(tag, range) {
    if (range) this.#picked ??= this.#chosen().map((run) => run.id);
    if (range) this.#ranges.set(tag, range.map((value) => Number(value.toPrecision(10))));
    else this.#ranges.delete(tag);
    this.#write();
  }

  #show() {
    const archived = this.#all.filter((run) => run.isArchived);
    this.#runs = this.#picker.showsArchived ? this.#all : this.#all.filter((run) => !run.isArchived);
    const chosen = this.#chosen();
    this.#colors.tellApart(chosen.map((run) => run.id));
    for (const run of this.#runs) run.color = this.#colors.of(run.id);
    this.#picker.show(this.#runs, chosen.map((run) => run.id), archived.length);
    const view = this.#view.value;
    this.#charts.hidden = view !== 'curves' && view !== 'compare';
    this.#compare.hidden = view !== 'compare';
    this.#media.hidden = view !== 'media';
    this.#table.hidden = view !== 'table';
    this.#tags.hidden = view === 'table';
    if (view === 'table') this.#table.show(chosen);
    else if (view === 'media') this.#media.show(chosen, this.#words());
    else this.#showCards(this.#grouped(chosen));
    if (view === 'compare') this.#compare.show(chosen);
    this.note.textContent = this.#missing(chosen);
    this.dataset.runs = this.#runs.length;
  }

  /** Says why there is less to see than there might be. */
  #missing(chosen) {
    const {filter} = this.#picker;
    if (this.#all.length === 0) return 'There are no runs here yet. They appear as they begin.';
    if (chosen.length === 0 && filter && this.#picked === null) return `No run matches “${filter}”.`;
    if (chosen.length === 0) return 'Choose a run to see its curves.';
    if (this.#view.value === 'curves' && this.#cards.size === 0 && this.#tags.value) return `No scalar of these runs matches “${this.#tags.value}”.`;
    if (this.#view.value === 'table' && chosen.length < this.#runs.length) return `${chosen.length} of ${this.#runs.length} runs, those that are chosen.`;
    return '';
  }

  // The runs with the group of each, and its colour, where the reader wants groups.
  #grouped(runs) {
    const name = this.#group.value;
    const names = [...new Set(this.#runs.flatMap((run) => Object.keys(run.record?.hparams ?? {})))].sort();
    if (name && !names.includes(name)) names.push(name);
    const options = ['', ...names];
    if (options.join('\n') !== [...this.#group.options].map((option) => option.value).join('\n')) {
      this.#group.replaceChildren(...options.map((value) => element('option', {value, selected: value === name}, value || 'nothing')));
    }
    if (!name) return runs;
    const groupOf = (run) => `${name}=${run.record?.hparams?.[name] ?? '–'}`;
    this.#groupColors.tellApart([...new Set(runs.map(groupOf))]);
    return runs.map((run) => ({...run, group: groupOf(run), groupColor: this.#groupColors.of(groupOf(run))}));
  }

  #words() {
    return this.#tags.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  #showCards(chosen) {
    const words = this.#words();
    const tags = tagsOf(chosen).filter((tag) => words.every((word) => tag.toLowerCase().includes(word)));
    const options = {x: this.#x.value, smoothing: Number(this.#smoothing.value), isLog: this.#log.checked, isTrimmed: this.#trim.checked,
                     isGrouped: this.#group.value !== ''};
    const runs = chosen.map((run) => ({id: run.id, name: labelOf(run), color: run.color, batch: batchOf(run),
      group: run.group, groupColor: run.groupColor}));
    for (const [tag, card] of this.#cards) {
      if (tags.includes(tag)) continue;
      card.remove();
      this.#cards.delete(tag);
    }
    for (const tag of tags) this.#cardOf(tag).show(runs, options);
    this.#usual = tags;
    this.#arrange();
  }

  #cardOf(tag) {
    const known = this.#cards.get(tag);
    if (known) return known;
    const card = document.createElement('scalar-card');
    card.tag = tag;
    card.range = this.#ranges.get(tag) ?? null;
    const change = (act) => ({detail}) => {
      act(detail);
      this.#write();
      this.#arrange();
    };
    card.addEventListener('range', ({detail}) => this.#setRange(tag, detail));
    card.addEventListener('size', change((size) => this.#layout.setSize(tag, size)));
    card.addEventListener('pin', change((isPinned) => this.#layout.setPinned(tag, isPinned)));
    card.addEventListener('move', change((where) => this.#move(tag, where)));
    this.#cards.set(tag, card);
    return card;
  }

  // To the place of another chart, or by one.
  #move(tag, {to, by}) {
    const now = this.#layout.arranged(this.#usual);
    const other = to ?? now[now.indexOf(tag) + by];
    if (other !== undefined) this.#layout.move(tag, other, this.#usual);
  }

  // Charts that stay where they are keep their focus.
  #arrange() {
    const focus = document.activeElement;
    this.#layout.arranged(this.#usual).forEach((tag, place) => {
      const card = this.#cards.get(tag);
      if (this.#charts.children[place] !== card) this.#charts.insertBefore(card, this.#charts.children[place] ?? null);
      card.place(this.#layout.sizeOf(tag), this.#layout.isPinned(tag));
    });
    if (focus !== document.activeElement && this.#charts.contains(focus)) focus.focus();
  }
}

// study/2 before study/10.
const collator = new Intl.Collator('en', {numeric: true});
const byName = (a, b) => collator.compare(a.id, b.id);

function timeOf(run) {
  return run.record?.began_ns ? run.record.began_ns / 1e9 : run.lastTime;
}

/** Those that training and evaluation share first: there the two are compared; those of machines last. */
function tagsOf(runs) {
  const weights = new Map();
  const add = (tags, weight) => {
    for (const tag of tags) weights.set(tag, (weights.get(tag) ?? 0) | weight);
  };
  for (const run of runs) {
    add(run.tags, 1);
    for (const [evaluation, tags] of Object.entries(run.evaluations)) add(tags, isOfMachine({evaluation}) ? 4 : 2);
  }
  return [...weights.keys()].sort((a, b) =>
    (weights.get(a) === 4) - (weights.get(b) === 4) || (weights.get(b) === 3) - (weights.get(a) === 3) || a.localeCompare(b));
}

function labelled(text, control) {
  return element('label', {class: 'control'}, element('span', {}, text), control);
}

function select(id, options, onchange) {
  return element('select', {id, onchange},
    Object.entries(options).map(([value, text]) => element('option', {value}, text)));
}

customElements.define('runs-page', RunsPage);
