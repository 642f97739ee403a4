// The columns of a table of runs: what all have, and every metric and hyperparameter that any has.
import {element} from './dom.js';
import {duration, moment, number} from './format.js';
import {addressOf, labelOf, tagLabels} from './run-label.js';

const kMostColumns = 40;

function namesIn(runs, group) {
  const names = new Set();
  for (const run of runs) Object.keys(run.record?.[group] ?? {}).forEach((name) => names.add(name));
  return [...names].sort().slice(0, kMostColumns);
}

function stateOf(run) {
  if (run.record?.ended === undefined) return '';
  return run.record.ended ? 'ended' : 'unfinished';
}

function beganOf(run) {
  return run.record?.began_ns ? run.record.began_ns / 1e9 : run.firstTime || null;
}

function secondsOf(run) {
  if (run.record?.ended_ns) return (run.record.ended_ns - run.record.began_ns) / 1e9;
  return run.lastTime ? run.lastTime - run.firstTime : null;
}

/** A hyperparameter is a text; those that are numbers sort as numbers. */
function asNumber(text) {
  if (typeof text !== 'string' || text.trim() === '') return text ?? null;
  return Number.isNaN(Number(text)) ? text : Number(text);
}

export function runColumns(runs) {
  const plain = (name, label, value, text = number) => ({name, label, value, isNumber: true,
                                                         cell: (run) => text(value(run))});
  return [
    {name: 'run', label: 'run', value: labelOf, cell: (run) => element('span', {color: run.color, class: 'with-dot'},
      element('i', {class: 'dot'}), element('a', {href: addressOf(run), title: run.id}, labelOf(run)), tagLabels(run))},
    plain('time', 'began', beganOf, moment),
    {name: 'state', label: 'state', value: stateOf, cell: (run) => element('span', {class: `state ${stateOf(run)}`}, stateOf(run))},
    plain('step', 'step', (run) => run.record?.global_step || run.step),
    plain('seconds', 'took', secondsOf, duration),
    ...namesIn(runs, 'metrics').map((name) => ({
      ...plain(`metric ${name}`, name, (run) => run.record?.metrics?.[name] ?? null), isCompared: true})),
    ...namesIn(runs, 'hparams').map((name) => plain(`hparam ${name}`, name,
      (run) => asNumber(run.record?.hparams?.[name]))),
    {name: 'commit', label: 'commit', value: (run) => run.record?.commit ?? null,
     cell: (run) => element('code', {}, (run.record?.commit ?? '').slice(0, 10))},
  ];
}
