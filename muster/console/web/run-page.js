// <run-page>: one run: what it was made of, its metrics, checkpoints and files, and notes of people.
import {currentSession, get, post} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {age, bytes, duration, moment, number} from './format.js';
import {later} from './later.js';
import {readState} from './page-state.js';
import {factsOf} from './run-facts.js';
import {isOfMachine, labelOf, notesOf, tagLabels} from './run-label.js';
import './machine-panel.js';
import './run-notes.js';
import './sorted-table.js';

class RunPage extends ConsolePage {
  #id = readState().id?.[0] ?? '';
  #head = element('div', {class: 'card'}, element('h1', {}, this.#id));
  #job = element('span');
  #versions = element('p', {class: 'aside versions'});
  #notes = element('run-notes', {onsave: (event) => this.#save(event.detail)});
  #metrics = element('sorted-table');
  #machine = element('machine-panel', {hidden: true});
  #machineTitle = element('h2', {hidden: true}, 'Machines');
  #checkpoints = element('sorted-table');
  #files = element('sorted-table');
  #facts = element('div', {class: 'stack'});
  #body = element('div', {class: 'stack', hidden: true},
    element('section', {class: 'card'}, element('h2', {}, 'Notes'), this.#notes),
    element('h2', {}, 'Metrics'), this.#metrics, this.#machineTitle, this.#machine, element('h2', {}, 'Checkpoints'), this.#checkpoints,
    this.#facts, element('h2', {}, 'Files'), this.#files);
  #loadSoon = later(() => this.#load());

  get news() {
    return {runs: ({runs}) => runs.includes(this.#id) && this.#loadSoon(), connected: () => this.#load()};
  }

  connectedCallback() {
    this.classList.add('page');
    this.append(element('div', {class: 'stack'}, this.#head, this.note, this.#body));
    this.#load();
  }

  #load() {
    return this.attempt(async () => {
      const [run, session] = await Promise.all([get('run', {id: this.#id}, this.signal), currentSession()]);
      this.note.textContent = '';
      this.#show(run, session.allowChanges);
    });
  }

  // The job that it was trained by, whose page has its log.
  async #showJob(run) {
    if (!(await currentSession()).hasJobs) return;
    const {job} = await get('links', {run: run.id}, this.signal);
    if (job) this.#job.replaceChildren(element('a', {href: `/jobs?job=${encodeURIComponent(job)}`}, `Job ${job} and its log`));
  }

  // Versions of models that come from this run.
  async #showVersions(run) {
    if (!(await currentSession()).hasRegistry) return;
    const {models} = await get('registry', {}, this.signal);
    const versions = models.flatMap((model) => model.versions.filter((one) => one.run === run.id).map((one) => `${model.name} ${one.name}${one.stage === 'none' ? '' : `, ${one.stage}`}`));
    this.#versions.replaceChildren(...(versions.length > 0 ? [element('span', {}, 'Versions of models: '), element('a', {href: '/models'}, versions.join('; '))] : []));
  }

  #show(run, canChange) {
    const {record} = run;
    const took = record.ended_ns ? (record.ended_ns - record.began_ns) / 1e9 : run.lastTime - run.firstTime;
    const facts = [['step', number(record.global_step || run.step)], ['began', moment(record.began_ns / 1e9 || run.firstTime)],
      ['took', duration(took)], ['commit', (record.git?.commit ?? '–').slice(0, 10)], ['folder', run.folder]];
    this.#head.replaceChildren(
      element('div', {class: 'head-line'}, element('h1', {}, labelOf(run)), tagLabels(run),
        record.ended === undefined ? null : element('span', {class: 'pill'}, record.ended ? 'ended' : 'unfinished'),
        element('span', {class: 'fill'}),
        element('a', {href: `/runs?run=${encodeURIComponent(run.id)}`}, 'Curves'),
        this.#job, run.study ? element('a', {href: `/studies?study=${encodeURIComponent(run.study)}`}, `Study ${run.study}`) : null),
      element('dl', {class: 'facts'}, facts.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value)))),
      this.#versions, run.problem ? element('p', {class: 'problem'}, run.problem) : '');
    this.attempt(() => this.#showVersions(run));
    this.attempt(() => this.#showJob(run));
    this.#notes.show(notesOf(run), canChange);
    const withKeys = (rows, key) => rows.map((row) => ({...row, key: key(row)}));
    this.#metrics.show(metricColumns, withKeys(run.scalars.filter((one) => !isOfMachine(one)), (one) => `${one.evaluation}/${one.tag}`),
      {label: 'Metrics', by: 'tag', empty: 'No scalars were written.'});
    this.#machineTitle.hidden = !run.scalars.some(isOfMachine);
    this.attempt(() => this.#machine.show(run));
    this.#checkpoints.show(checkpointColumns, withKeys(run.files.checkpoints, (one) => one.name),
      {label: 'Checkpoints', by: 'step', isReverse: true, empty: 'There are no checkpoints.'});
    this.#files.show(fileColumns, withKeys([...run.files.files, ...run.files.exports], (one) => one.name),
      {label: 'Files', by: 'name', empty: 'There are no files.'});
    this.#facts.replaceChildren(...factsOf(record).map(({title, rows}) => element('section', {class: 'card'}, element('h2', {}, title),
      element('div', {class: 'scroll plain', tabindex: 0, role: 'region', 'aria-label': title}, element('table', {},
        element('tbody', {}, [...rows].map(([name, value]) => element('tr', {},
          element('th', {scope: 'row'}, name), element('td', {}, element('span', {class: 'wrapped'}, value))))))))));
    this.#body.hidden = false;
    this.dataset.run = run.id;
  }

  async #save(notes) {
    try {
      await post(`run/notes?id=${encodeURIComponent(this.#id)}`, notes);
      this.#notes.saved('');
      await this.#load();
    } catch (error) {
      this.#notes.saved(error.message);
    }
  }
}

const plain = (name, label, value, text = number) => ({name, label, value, isNumber: true, cell: (row) => text(value(row))});
const at = (name, label, point) => ({name, label, isNumber: true, value: (row) => point(row).value,
  cell: (row) => element('span', {}, number(point(row).value), element('span', {class: 'aside'}, ` at ${number(point(row).step)}`))});

const metricColumns = [
  {name: 'tag', label: 'metric', value: (row) => row.tag, cell: (row) => row.tag},
  {name: 'evaluation', label: 'of', value: (row) => row.evaluation, cell: (row) => row.evaluation || 'training'},
  at('last', 'last', (row) => row.last),
  at('least', 'smallest', (row) => row.least),
  at('most', 'largest', (row) => row.most),
  plain('points', 'points', (row) => row.points),
];

const checkpointColumns = [
  {name: 'name', label: 'checkpoint', value: (row) => row.name, cell: (row) => row.name},
  plain('step', 'step', (row) => row.step),
  plain('bytes', 'size', (row) => row.bytes, bytes),
  plain('time', 'age', (row) => row.time, age),
];

const fileColumns = [
  {name: 'name', label: 'file', value: (row) => row.name, cell: (row) => row.name},
  plain('bytes', 'size', (row) => row.bytes, bytes),
  plain('time', 'changed', (row) => row.time, moment),
];

customElements.define('run-page', RunPage);
