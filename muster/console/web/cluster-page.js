// <cluster-page>: the tasks of a job that runs as a cluster: who takes part, what the run waited for and why, how old
// gradients are.
import {get} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {duration, moment, number} from './format.js';
import {later} from './later.js';
import {legend} from './legend.js';
import './line-chart.js';
import {readState, writeState} from './page-state.js';
import './sorted-table.js';

// A task that writes nothing for so long is marked.
const kSilentSeconds = 60;

const [kMean, kLargest] = ['#2f6fde', '#d1495b'];

class ClusterPage extends ConsolePage {
  #jobs = [];
  #job = element('select', {id: 'job', onchange: () => this.#choose()});
  #facts = element('dl', {class: 'facts'});
  #tasks = element('sorted-table');
  #stalls = element('sorted-table');
  #generations = element('sorted-table');
  #chart = element('line-chart', {label: 'Staleness'});
  #staleness = element('section', {class: 'card', hidden: true}, element('h2', {}, 'Staleness, in updates'), this.#chart,
    legend({color: kMean, text: 'mean'}, {color: kLargest, text: 'largest so far', isDashed: true}));
  #body = element('div', {class: 'stack'}, element('div', {class: 'card'}, this.#facts),
    element('h2', {}, 'Tasks'), this.#tasks, this.#staleness, element('h2', {}, 'Stalls'), this.#stalls,
    element('h2', {}, 'Generations'), this.#generations);
  #loadSoon = later(() => this.#load());

  get news() {
    return {jobs: this.#loadSoon, connected: () => this.#load()};
  }

  connectedCallback() {
    this.classList.add('page');
    this.append(element('h1', {class: 'unseen'}, 'Cluster'),
      element('div', {class: 'toolbar'}, element('label', {class: 'control'}, element('span', {}, 'Job'), this.#job)),
      this.note, this.#body);
    this.#load();
  }

  #load() {
    const {signal} = this;
    return this.attempt(async () => {
      this.#jobs = (await get('jobs', {}, signal)).jobs.filter((job) => job.kind === 'training');
      this.#list();
      this.#body.hidden = this.#jobs.length === 0;
      this.note.textContent = this.#jobs.length === 0 ? 'There are no jobs: muster jobs submit makes one.' : '';
      if (this.#job.value) this.#show(await get(`cluster/${encodeURIComponent(this.#job.value)}`, {}, signal));
    });
  }

  // Those that run first; the one of the address, else the first.
  #list() {
    const chosen = this.#job.value || readState().job?.[0];
    const jobs = [...this.#jobs].sort((a, b) => a.isFinal - b.isFinal);
    this.#job.replaceChildren(...jobs.map((job) => element('option', {value: job.name}, `${job.name} · ${job.state.toLowerCase()}`)));
    if (jobs.some((job) => job.name === chosen)) this.#job.value = chosen;
  }

  #choose() {
    writeState({job: this.#job.value});
    this.#load();
  }

  #show(cluster) {
    const last = cluster.generations.at(-1);
    const waits = cluster.stalls.filter((stall) => stall.ended === null);
    this.#facts.replaceChildren(...[
      ['state', cluster.state.toLowerCase()],
      ['tasks', number(cluster.tasks.length)],
      ['generation', last ? number(last.number) : '–'],
      ['waits for', cluster.isFinal || waits.length === 0 ? 'nothing' : waits.at(-1).task],
    ].map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))));
    const withKeys = (rows) => rows.map((row, key) => ({...row, key: row.name ?? key}));
    this.#tasks.show(taskColumns(cluster), withKeys(cluster.tasks), {label: 'Tasks', by: 'task'});
    this.#stalls.show(stallColumns, withKeys(cluster.stalls), {label: 'Stalls', by: 'began', isReverse: true});
    this.#generations.show(generationColumns, withKeys(cluster.generations), {label: 'Generations', by: 'number', isReverse: true});
    this.#showStaleness(cluster.staleness);
    Object.assign(this.dataset, {tasks: cluster.tasks.length, generations: cluster.generations.length, stalls: cluster.stalls.length,
      staleness: cluster.staleness.length});
  }

  #showStaleness(staleness) {
    this.#staleness.hidden = staleness.length === 0;
    const steps = staleness.map((one) => one.step);
    this.#chart.show([
      {name: 'mean', color: kMean, steps, values: staleness.map((one) => one.mean)},
      {name: 'largest so far', color: kLargest, dashed: true, steps, values: staleness.map((one) => one.max)},
    ], {x: 'step', smoothing: 0, isLog: false});
  }
}

function stateOf(task, isFinal) {
  if (task.gone) return 'gone';
  if (isFinal) return 'ended';
  return Date.now() / 1000 - task.lastTime > kSilentSeconds ? 'silent' : 'running';
}

const kPills = {gone: 'failed', silent: 'stopped', running: 'running', ended: ''};
const plain = (name, label, value, text = number) => ({name, label, value, isNumber: true, cell: (row) => text(value(row))});

function taskColumns({isFinal}) {
  return [
    {name: 'task', label: 'task', value: (task) => task.name, cell: (task) => task.name},
    {name: 'state', label: 'state', value: (task) => stateOf(task, isFinal), cell: (task) => element('span', {
      class: `pill ${kPills[stateOf(task, isFinal)]}`, title: task.gone}, stateOf(task, isFinal))},
    plain('step', 'step', (task) => task.step),
    plain('restarts', 'restarts', (task) => task.restarts),
    plain('last', 'last line', (task) => task.lastTime, moment),
    {name: 'line', label: 'what it said', value: (task) => task.lastLine,
     cell: (task) => element('span', {class: 'clipped', title: task.lastLine}, task.gone || task.lastLine)},
  ];
}

const stallColumns = [
  plain('began', 'began', (stall) => stall.began, moment),
  plain('took', 'took', (stall) => stall.ended === null ? null : stall.ended - stall.began, (value) => value === null ? 'not over' : duration(value)),
  {name: 'task', label: 'waited for', value: (stall) => stall.task, cell: (stall) => stall.task},
  {name: 'reason', label: 'why', value: (stall) => stall.reason, cell: (stall) => element('span', {class: 'wrapped'}, stall.reason)},
];

const generationColumns = [
  plain('number', 'generation', (generation) => generation.number),
  plain('began', 'began', (generation) => generation.began, moment),
  plain('seconds', 'ready after', (generation) => generation.seconds, (value) => value === null ? 'not yet' : duration(value)),
  {name: 'members', label: 'tasks and their replicas', value: (generation) => generation.members,
   cell: (generation) => element('span', {class: 'wrapped'}, generation.members)},
];

customElements.define('cluster-page', ClusterPage);
