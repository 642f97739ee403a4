// <nodes-panel>: the nodes behind a server, and what they did for a day.
import {element} from './dom.js';
import {number} from './format.js';
import './line-chart.js';
import {legend} from './legend.js';
import './sorted-table.js';

// The server keeps a day at a point every ten seconds.
const kMostPoints = 8640;

class NodesPanel extends HTMLElement {
  #points = new Map(kFields.map((field) => [field, []]));
  #table = element('sorted-table');
  #charts = kCharts.map(({title, curves}) => element('section', {class: 'card'}, element('h2', {}, title),
    element('line-chart', {label: title}), legend(...curves.map(({name, color}) => ({color, text: name})))));

  connectedCallback() {
    this.classList.add('stack');
    if (!this.#table.isConnected) this.append(this.#table, element('div', {class: 'charts pair'}, ...this.#charts));
  }

  /** The time up to which history is known, in seconds: a server is asked for what came after it. */
  get since() {
    return this.#points.get('time').at(-1) ?? 0;
  }

  /** {nodes, history}, as a front's page /nodes has them; the history is added to what is known. */
  show({nodes, history}, label) {
    for (const [field, values] of this.#points) {
      values.push(...(history?.[field] ?? []));
      values.splice(0, values.length - kMostPoints);
    }
    const rows = nodes.map((node) => ({...node, key: String(node.number)}));
    this.#table.show(kColumns, rows, {label, by: 'number', empty: 'No node: the next request starts one.'});
    kCharts.forEach(({curves}, place) => this.#charts[place].children[1].show(curves.map(({name, color, field}) => ({
      name, color, steps: this.#points.get('time'), values: this.#points.get(field)})), {x: 'clock', smoothing: 0, isLog: false}));
    Object.assign(this.dataset, {nodes: rows.length, points: this.#points.get('time').length});
  }
}

const kFields = ['time', 'up', 'in_flight', 'waiting', 'answers_per_second', 'queue_ms', 'p50_ms', 'p99_ms'];
const plain = (name, label, text = number) => ({name, label, value: (row) => row[name], isNumber: true, cell: (row) => text(row[name])});
const kColumns = [
  plain('number', 'node', String),
  {name: 'state', label: 'state', value: (row) => row.state,
   cell: (row) => element('span', {class: `pill ${row.state === 'up' ? 'succeeded' : row.state === 'out' ? 'failed' : 'running'}`}, row.state)},
  {name: 'address', label: 'address', value: (row) => row.address, cell: (row) => row.address},
  plain('process', 'process', (value) => value > 0 ? String(value) : '–'),
  plain('in_flight', 'in flight'),
  plain('latency_ms', 'ms each', (value) => value > 0 ? value.toFixed(2) : '–'),
];
const [kFirst, kSecond, kThird] = ['#3266ad', '#c4622d', '#3f8f4f'];
const kCharts = [
  {title: 'Nodes, and requests in flight and waiting', curves: [
    {name: 'nodes up', field: 'up', color: kFirst}, {name: 'in flight', field: 'in_flight', color: kSecond},
    {name: 'waiting for a node', field: 'waiting', color: kThird}]},
  {title: 'Answers per second', curves: [{name: 'answers/s', field: 'answers_per_second', color: kFirst}]},
  {title: 'Latency in milliseconds', curves: [
    {name: 'p50', field: 'p50_ms', color: kFirst}, {name: 'p99', field: 'p99_ms', color: kSecond}]},
  {title: 'Milliseconds in queues', curves: [{name: 'mean', field: 'queue_ms', color: kFirst}]},
];

customElements.define('nodes-panel', NodesPanel);
