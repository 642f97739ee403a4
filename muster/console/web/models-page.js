// <models-page>: what the servers hold, and how much they answer.
import {currentSession, get, post} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {number} from './format.js';
import './line-chart.js';
import {legend} from './legend.js';
import './nodes-panel.js';
import './registry-view.js';
import {RunColors} from './run-colors.js';
import './sorted-table.js';

// Servers do not say when they are ready: the page polls them while it is visible.
const kAskEvery = 2000;
// Answers that charts of requests show: those of the last ten minutes.
const kMostAnswers = 300;

class ModelsPage extends ConsolePage {
  #before = new Map();
  // By row: [{time, rate, latency}].
  #history = new Map();
  #colors = new RunColors('muster-model-colors');
  #asked = 0;
  #timer = 0;
  #allowChanges = false;
  #registry = element('registry-view', {hidden: true});
  #list = element('div', {class: 'stack'});

  connectedCallback() {
    this.classList.add('page');
    this.append(element('h1', {class: 'unseen'}, 'Models'), this.note, element('div', {class: 'stack'}, this.#registry, this.#list));
    this.#begin();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.#timer);
  }

  async #begin() {
    const session = await currentSession();
    this.#allowChanges = session.allowChanges;
    this.#registry.hidden = !session.hasRegistry;
    if (session.hasRegistry) this.#registry.refresh(session.allowChanges);
    if (session.hasModels) this.#ask();
  }

  async #ask() {
    clearTimeout(this.#timer);
    if (!document.hidden) await this.#load();
    if (this.isConnected) this.#timer = setTimeout(() => this.#ask(), kAskEvery);
  }

  #load() {
    return this.attempt(async () => {
      const {servers} = await get('models', {}, this.signal);
      this.#colors.tellApart(servers.flatMap((server) => server.models.map(versionName)));
      servers.forEach((server, place) => this.#showServer(server, place));
      await Promise.all(servers.map((server, place) => this.#showNodes(server, place)));
      this.note.textContent = '';
      Object.assign(this.dataset, {servers: servers.length, asked: ++this.#asked});
    });
  }

  #showServer(server, place) {
    let card = this.#list.children[place];
    if (!card) {
      card = element('section', {class: 'stack'}, element('h2', {}, server.server), element('p', {class: 'note'}),
        element('sorted-table'), element('div', {class: 'charts pair'}, ...kCharts.map(({title}) => element('section', {class: 'card'},
          element('h2', {}, title), element('line-chart', {label: title}), legend()))));
      this.#list.append(card);
    }
    card.children[1].textContent = server.problem ?? '';
    const rows = withShares(server.models.map((model) => this.#rowOf(model, server, place)));
    card.children[2].show(this.#columns(place), rows, {label: `Models of ${server.server}`, by: 'model'});
    kCharts.forEach(({value}, i) => this.#draw(card.children[3].children[i], rows, value));
  }

  // A server may be a front of several nodes.
  async #showNodes(server, place) {
    const card = this.#list.children[place];
    const known = card.querySelector('nodes-panel');
    const page = await get(`models/${place}/nodes`, {since: known?.since ?? 0}, this.signal);
    if (!page.nodes) return;
    const panel = known ?? card.appendChild(element('nodes-panel'));
    panel.show(page, `Nodes of ${server.server}`);
  }

  #draw(card, rows, value) {
    const curves = rows.map((row) => ({name: versionName(row), points: this.#history.get(row.key) ?? []}))
      .filter(({points}) => points.length > 0).map(({name, points}) => ({
        name, color: this.#colors.of(name), steps: points.map((one) => one.time), values: points.map(value)}));
    card.children[1].show(curves, {x: 'clock', smoothing: 0, isLog: false});
    card.children[2].replaceWith(legend(...curves.map(({name, color}) => ({color, text: name}))));
  }

  #rowOf(model, server, place) {
    const key = `${place} ${model.name} ${model.version}`;
    const counts = model.counts ?? {};
    const last = this.#before.get(key);
    const answered = (counts.answered ?? 0) - (last?.answered ?? counts.answered ?? 0);
    const spent = (counts.answeredNs ?? 0) - (last?.answeredNs ?? counts.answeredNs ?? 0);
    const seconds = last ? server.time - last.time : 0;
    this.#before.set(key, {...counts, time: server.time});
    const rate = seconds > 0 ? answered / seconds : null;
    if (rate !== null) this.#keep(key, {time: server.time, rate, latency: answered > 0 ? spent / answered / 1e6 : null});
    return {...model, key, counts, rate,
            latency: answered > 0 ? spent / answered / 1e6 : counts.answered ? counts.answeredNs / counts.answered / 1e6 : null};
  }

  #keep(key, answer) {
    this.#history.set(key, [...(this.#history.get(key) ?? []), answer].slice(-kMostAnswers));
  }

  #columns(place) {
    const plain = (name, label, value, text = number) => ({name, label, value, isNumber: true, cell: (row) => text(value(row))});
    const address = (row) => `/try?server=${place}&model=${encodeURIComponent(row.name)}&version=${row.version}`;
    return [
      {name: 'model', label: 'model', value: (row) => row.name, cell: (row) => row.name},
      plain('version', 'version', (row) => Number(row.version), (value) => String(value)),
      {name: 'state', label: 'state', value: (row) => row.state,
       cell: (row) => element('span', {class: `pill ${row.state === 'READY' ? 'succeeded' : 'failed'}`, title: row.reason}, row.state.toLowerCase())},
      {name: 'labels', label: 'labels', value: (row) => labelsOf(row).join(' '),
       cell: (row) => element('span', {}, isDefault(row) ? element('span', {class: 'label default'}, 'default') : null,
         labelsOf(row).map((label) => element('span', {class: 'label'}, label)))},
      plain('share', 'traffic', (row) => row.share, (value) => value === null ? '–' : `${Math.round(100 * value)} %`),
      plain('rate', 'requests/s', (row) => row.rate, (value) => value === null ? '–' : value.toFixed(1)),
      plain('latency', 'ms each', (row) => row.latency, (value) => value === null ? '–' : value.toFixed(2)),
      plain('answered', 'answered', (row) => row.counts.answered ?? null),
      plain('refused', 'failed', (row) => row.counts.refused ?? null),
      {name: 'try', label: '', value: () => '', cell: (row) => element('span', {class: 'actions'},
        element('a', {href: address(row)}, 'try it'),
        this.#allowChanges && !isDefault(row) ? element('button', {class: 'quiet', onclick: () => this.#setDefault(place, row)}, 'set default') : null)},
    ];
  }

  #setDefault(place, row) {
    return this.attempt(async () => {
      await post(`models/${place}/${encodeURIComponent(row.name)}/${row.version}/default`);
      await this.#load();
      this.note.textContent = `${row.name} answers with version ${row.version} by default.`;
    });
  }
}

const kCharts = [{title: 'Requests per second', value: (one) => one.rate},
                 {title: 'Milliseconds each', value: (one) => one.latency}];
const versionName = (model) => `${model.name} ${model.version}`;
const labelsOf = (row) => row.parameters?.labels ?? [];
const isDefault = (row) => row.parameters?.default === true;

/** Each version's part of the requests that its model had since the page asked last; all so far where it had none. */
function withShares(rows) {
  const sumOf = (name, value) => rows.filter((row) => row.name === name).reduce((sum, row) => sum + (value(row) ?? 0), 0);
  return rows.map((row) => {
    const isIdle = sumOf(row.name, (one) => one.rate) === 0;
    const value = isIdle ? (one) => one.counts.answered : (one) => one.rate;
    const all = sumOf(row.name, value);
    return {...row, share: all > 0 ? (value(row) ?? 0) / all : null};
  });
}

customElements.define('models-page', ModelsPage);
