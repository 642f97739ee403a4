// <study-view>: the trials of one study: history, curves, parallel coordinates, table.
import {currentSession, get} from './api.js';
import {element} from './dom.js';
import {duration, number} from './format.js';
import './line-chart.js';
import {importancesOf} from './importances.js';
import {legend} from './legend.js';
import './contour-view.js';
import './parallel-coordinates.js';
import './pareto-front.js';
import {addressOf} from './run-label.js';
import './sorted-table.js';
import './study-changes.js';

const [kBest, kTrial, kWhole, kStopped] = ['#2a9d6f', '#2f6fde', '#7a8b99', '#d1495b'];

class StudyView extends HTMLElement {
  #id = '';
  #head = element('div', {class: 'card job-head'});
  #history = element('line-chart', {label: 'Metric by trial'});
  #curves = element('line-chart', {label: 'Metric by step of every trial'});
  #importances = element('section', {class: 'card', hidden: true});
  #parallel = element('parallel-coordinates', {onbrush: (event) => this.#showTable(event.detail)});
  #contour = element('contour-view');
  #contourCard = element('section', {class: 'card', hidden: true}, element('h2', {}, 'Two parameters'), this.#contour);
  #front = element('pareto-front');
  #frontCard = element('section', {class: 'card', hidden: true}, element('h2', {}, 'Goals'), this.#front);
  #table = element('sorted-table');
  #all = element('button', {class: 'quiet', hidden: true, onclick: () => this.#parallel.showAll()});
  #study = null;
  #trials = [];
  #ranking = element('p', {class: 'note ranking', hidden: true}, 'Only trials of the same number of steps are compared. ' +
    'Those that trained for the most come first, and the best of all is one of them.');
  #changes = element('study-changes', {hidden: true, onchanged: () => this.refresh()});
  #note = element('p', {class: 'note', role: 'status'});

  connectedCallback() {
    this.append(this.#head, this.#note, this.#changes,
      element('div', {class: 'charts pair'},
        element('section', {class: 'card'}, element('h2', {}, 'History'), this.#history,
          legend({color: kBest, text: 'best so far'}, {color: kTrial, text: 'each trial', isDashed: true})),
        element('section', {class: 'card'}, element('h2', {}, 'Curves of trials'), this.#curves,
          legend({color: kWhole, text: 'trained to its end'}, {color: kStopped, text: 'stopped early'}))),
      this.#importances,
      element('section', {class: 'card'}, element('h2', {}, 'Parameters'), this.#parallel, this.#all),
      element('div', {class: 'charts pair'}, this.#contourCard, this.#frontCard), this.#ranking, this.#table);
    this.refresh();
  }

  set study(id) {
    this.#id = id;
  }

  async refresh() {
    try {
      const [study, session] = await Promise.all([get('study', {id: this.#id}), currentSession()]);
      this.#show(study);
      this.#changes.hidden = !session.allowChanges || !session.hasJobs;
      this.#changes.show(study);
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }

  #show(study) {
    const trials = study.trials.map(trialOf);
    // Ranked by the console; with successive halving, those that trained for the most steps come first.
    const done = trials.filter((trial) => trial.value !== null);
    this.#head.replaceChildren(
      element('div', {class: 'head-line'}, element('h1', {}, study.id),
        element('span', {class: 'aside'}, `${study.isMaximized ? 'maximize' : 'minimize'} ${study.metric}`),
        study.isRunning ? element('span', {class: 'pill running'}, 'running') : null),
      element('dl', {class: 'facts'}, [
        ['best', study.best ? `${number(study.best.value)} (trial ${study.best.trial}${study.isHalved ? ` at step ${study.best.step}` : ''})` : '–'],
        ['trials', `${trials.length} of ${study.maxTrials}`], ['stopped early', study.stoppedEarly],
        ['failed', study.states.FAILED ?? 0], ['algorithm', algorithmName(study.algorithm)],
      ].map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, String(value))))));
    this.#showImportances(study);
    this.#ranking.hidden = !study.isHalved;
    this.#showHistory(done, study.isMaximized);
    this.#showCurves(trials);
    this.#parallel.show([
      ...study.parameters.map((one) => ({label: one.name, choices: one.isText ? one.choices : null, isLog: one.isLog,
        value: (trial) => one.isText ? trial.values[one.name] : numberOf(trial.values[one.name])})),
      {label: shortMetric(study.metric), value: (trial) => trial.value}], done, study.isMaximized);
    this.#contourCard.hidden = study.parameters.length < 2;
    this.#contour.show(study);
    this.#frontCard.hidden = !study.goals;
    if (study.goals) this.#front.show(study);
    this.#study = study;
    this.#trials = trials.map((trial) => ({...trial, key: trial.id}));
    this.#showTable(this.#parallel.brushed);
    this.dataset.trials = trials.length;
  }

  /** The trials of the table: those with the ids that were brushed; null: all. */
  #showTable(ids) {
    const shown = ids === null ? this.#trials : this.#trials.filter((trial) => ids.has(trial.id));
    this.#table.show(columnsOf(this.#study), shown, {label: 'Trials', by: 'rank', empty: 'No trial is in all ranges.'});
    this.#all.hidden = ids === null;
    this.#all.textContent = `${shown.length} of ${this.#trials.length} trials: show all`;
  }

  #showImportances({parameters, metric}) {
    const bars = importancesOf(parameters);
    this.#importances.hidden = bars === null;
    if (bars) this.#importances.replaceChildren(element('h2', {}, `Which parameters count for ${shortMetric(metric)}`), bars);
  }

  #showHistory(ranked, isMaximized) {
    const most = Math.max(0, ...ranked.map((trial) => trial.budget));
    const done = [...ranked].sort((a, b) => a.id - b.id);
    let best = null;
    const bests = done.map(({value, budget}) => {
      if (budget === most) best = best === null ? value : isMaximized ? Math.max(best, value) : Math.min(best, value);
      return best;
    });
    const steps = done.map((trial) => trial.id);
    const times = done.map((trial) => trial.ended);
    this.#history.show([
      {name: 'best so far', color: kBest, steps, times, values: bests},
      {name: 'trial', color: kTrial, dashed: true, steps, times, values: done.map((trial) => trial.value)},
    ], {x: 'step', smoothing: 0, isLog: false});
  }

  #showCurves(trials) {
    this.#curves.show(trials.filter((trial) => trial.curve.length > 0).map((trial) => ({
      name: `trial ${trial.id}`, color: trial.isStopped ? kStopped : kWhole,
      steps: trial.curve.map((one) => one.step), times: trial.curve.map((one) => one.step),
      values: trial.curve.map((one) => one.value),
    })), {x: 'step', smoothing: 0, isLog: false});
  }
}

/** Numbers that JSON cannot have, and 64-bit ones, are texts. */
function numberOf(value) {
  if (value === null || value === undefined || value === '') return null;
  const read = Number(value);
  return Number.isFinite(read) ? read : null;
}

function trialOf(trial) {
  const measured = (one) => ({step: numberOf(one.trainingStep), value: numberOf(one.objectiveValue)});
  return {
    id: Number(trial.trialId),
    rank: trial.rank,
    // The run that it is.
    run: {id: trial.run},
    // Steps that successive halving gave it.
    budget: trial.budget ?? 0,
    state: trial.state,
    isStopped: trial.isTrialStoppedEarly === true,
    values: trial.hyperparameters ?? {},
    value: trial.finalMetric ? numberOf(trial.finalMetric.objectiveValue) : null,
    step: trial.finalMetric ? numberOf(trial.finalMetric.trainingStep) : null,
    curve: (trial.allMetrics ?? []).map(measured),
    ended: Number(trial.endTime) || 0,
    seconds: trial.endTime ? Number(trial.endTime) - Number(trial.startTime) : null,
    error: trial.errorMessage ?? '',
  };
}

function algorithmName(word) {
  return word === 'ALGORITHM_UNSPECIFIED' ? 'bayesian optimisation' : word.toLowerCase().replaceAll('_', ' ');
}

function shortMetric(tag) {
  return tag.split(/[:/]/).at(-1);
}

function columnsOf(study) {
  const plain = (name, label, value, text = number) => ({name, label, value, isNumber: true, cell: (row) => text(value(row))});
  return [
    plain('rank', 'rank', (trial) => trial.rank),
    {...plain('id', 'trial', (trial) => trial.id),
     cell: (trial) => element('a', {href: addressOf(trial.run), title: `Page of trial ${trial.id}`}, String(trial.id))},
    {name: 'state', label: 'state', value: (trial) => trial.state + trial.isStopped,
     cell: (trial) => element('span', {class: `pill ${trial.isStopped ? 'stopped' : trial.state.toLowerCase()}`, title: trial.error},
       trial.isStopped ? 'stopped early' : trial.state.toLowerCase())},
    plain('value', shortMetric(study.metric), (trial) => trial.value),
    ...(study.isHalved ? [plain('budget', 'trained up to', (trial) => trial.budget || null)] : []),
    plain('step', 'step', (trial) => trial.step),
    plain('seconds', 'took', (trial) => trial.seconds, duration),
    ...study.parameters.map((one) => plain(`parameter ${one.name}`, one.name,
      (trial) => one.isText ? trial.values[one.name] ?? null : numberOf(trial.values[one.name]))),
  ];
}

customElements.define('study-view', StudyView);
