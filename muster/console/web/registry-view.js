// <registry-view>: versions of models with their stages and what they come from: compared, promoted with a reason.
import {get, post} from './api.js';
import {element} from './dom.js';
import {number} from './format.js';
import {addressOf} from './run-label.js';
import './sorted-table.js';

const kStages = ['none', 'staging', 'production', 'archived'];
const kMostMetrics = 6;

class RegistryView extends HTMLElement {
  #canChange = false;
  #note = element('p', {class: 'note', role: 'status'});
  #cards = element('div', {class: 'stack'});
  // By model: names of the versions that are compared.
  #compared = new Map();

  connectedCallback() {
    if (this.childElementCount === 0) this.append(element('h2', {}, 'Registry'), this.#note, this.#cards);
  }

  async refresh(canChange) {
    this.#canChange = canChange;
    try {
      const {models} = await get('registry');
      this.#note.textContent = models.length > 0 ? '' : 'There are no models yet: muster models create makes one.';
      this.#cards.replaceChildren(...models.map((model) => this.#cardOf(model)));
      this.dataset.models = models.length;
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }

  #cardOf(model) {
    const compared = this.#compared.get(model.name) ?? new Set();
    this.#compared.set(model.name, compared);
    const table = element('sorted-table');
    const comparison = element('div');
    const draw = () => comparison.replaceChildren(...differencesOf(model.versions.filter(({name}) => compared.has(name))));
    const choose = (name, isChosen) => {
      if (isChosen) compared.add(name);
      else compared.delete(name);
      draw();
    };
    table.show(columnsOf(model, compared, choose), model.versions.map((one) => ({...one, key: one.name})),
      {label: `Versions of ${model.name}`, by: 'number', isReverse: true, empty: 'There are no versions yet.'});
    draw();
    return element('section', {class: 'card stack', 'data-model': model.name}, element('h3', {}, model.name),
      model.description ? element('p', {class: 'aside'}, model.description) : null, table, comparison,
      this.#canChange && model.versions.length > 0 ? this.#formOf(model) : null, historyOf(model));
  }

  #formOf(model) {
    const version = element('select', {name: 'version', 'aria-label': 'Version'}, model.versions.toReversed().map(({name}) => element('option', {value: name}, name)));
    const stage = element('select', {name: 'stage', 'aria-label': 'Stage'}, kStages.map((name) => element('option', {value: name, selected: name === 'production'}, name)));
    const reason = element('input', {type: 'text', name: 'reason', 'aria-label': 'Reason', placeholder: 'Reason', required: true, maxlength: 2000});
    return element('form', {class: 'toolbar', onsubmit: (event) => {
      event.preventDefault();
      this.#promote(model.name, version.value, stage.value, reason.value);
    }}, element('span', {}, 'Move'), version, element('span', {}, 'to'), stage, reason, element('button', {class: 'primary'}, 'Promote'));
  }

  async #promote(model, version, stage, reason) {
    try {
      await post(`registry/${encodeURIComponent(model)}/${encodeURIComponent(version)}/stage`, {stage, reason});
      await this.refresh(this.#canChange);
      this.#note.textContent = `${model} ${version} is in stage ${stage}.`;
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }
}

function columnsOf({versions}, compared, choose) {
  const metrics = [...new Set(versions.flatMap(({lineage}) => Object.keys(lineage.metrics ?? {})))].sort().slice(0, kMostMetrics);
  const text = (name, label, value) => ({name, label, value, cell: (row) => value(row)});
  return [
    {name: 'compare', label: 'compare', value: ({name}) => compared.has(name), cell: ({name}) => element('input', {
      type: 'checkbox', 'aria-label': `Compare ${name}`, checked: compared.has(name), onchange: ({target}) => choose(name, target.checked)})},
    {name: 'number', label: 'version', value: (row) => row.number, cell: (row) => element('span', {}, row.name,
      row.isDefault ? element('span', {class: 'label default'}, 'default') : null)},
    {name: 'stage', label: 'stage', value: ({stage}) => kStages.indexOf(stage),
     cell: ({stage}) => element('span', {class: `pill ${stage === 'production' ? 'succeeded' : stage === 'staging' ? 'running' : ''}`}, stage)},
    {name: 'run', label: 'run', value: (row) => row.run ?? '', cell: (row) => row.run ? element('a', {href: addressOf({id: row.run})}, row.run)
      : element('span', {class: 'clipped', title: row.origin}, row.lineage.run ?? row.origin)},
    {name: 'commit', label: 'commit', value: ({lineage}) => lineage.commit ?? '', cell: ({lineage}) => element('code', {}, String(lineage.commit ?? '–').slice(0, 10))},
    ...metrics.map((name) => ({name: `metric ${name}`, label: name, isNumber: true, value: ({lineage}) => lineage.metrics?.[name] ?? null,
      cell: ({lineage}) => number(lineage.metrics?.[name])})),
    text('created', 'created', ({created}) => created.replace('T', ' ').replace('Z', '')),
    text('description', 'description', ({description}) => description),
  ];
}

/** What versions come from, as rows of a name and a text. */
function factsOf({lineage, stage}) {
  const facts = new Map([['stage', stage]]);
  for (const [name, value] of Object.entries(lineage)) {
    if (name === 'files') facts.set('files', value.map?.(({path}) => path).join(' ') ?? '');
    else if (typeof value === 'object' && value !== null) Object.entries(value).forEach(([key, inner]) => facts.set(`${name}: ${key}`, typeof inner === 'number' ? number(inner) : String(inner)));
    else facts.set(name, String(value));
  }
  return facts;
}

function differencesOf(versions) {
  if (versions.length < 2) return [];
  const facts = versions.map(factsOf);
  const names = [...new Set(facts.flatMap((one) => [...one.keys()]))].filter((name) => new Set(facts.map((one) => one.get(name))).size > 1);
  if (names.length === 0) return [element('p', {class: 'note'}, 'They come from the same.')];
  return [element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Differences of versions'}, element('table', {class: 'differences'},
    element('thead', {}, element('tr', {}, element('td', {}), versions.map(({name}) => element('th', {scope: 'col'}, name)))),
    element('tbody', {}, names.map((name) => element('tr', {'data-key': name}, element('th', {scope: 'row'}, name),
      facts.map((one) => element('td', {}, element('span', {class: 'wrapped'}, one.get(name) ?? '–'))))))))];
}

function historyOf({versions}) {
  const changes = versions.flatMap(({name, changes: all}) => all.map((one) => ({...one, name}))).sort((a, b) => b.time.localeCompare(a.time));
  if (changes.length === 0) return null;
  return element('details', {open: true}, element('summary', {}, 'Changes of stages'), element('ul', {class: 'changes'}, changes.map(({time, name, stage, reason}) =>
    element('li', {}, element('span', {class: 'aside'}, time.replace('T', ' ').replace('Z', '')), ` ${name} to ${stage}: ${reason}`))));
}

customElements.define('registry-view', RegistryView);
