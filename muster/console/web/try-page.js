// <try-page>: a form made from a model's signature, rows that are asked together, the answers of one or two versions, and the
// same call for a shell.
import {bars, contributions, probabilitiesOf} from './answer.js';
import {get, post} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import {fieldOf} from './form-field.js';
import {readState, writeState} from './page-state.js';
import {curlLine, exampleOf, pictureSides, signaturesOf} from './signature.js';
import {answersTable} from './try-answers.js';
import './try-examples.js';
import './try-rows.js';

const kShortBody = 400;

class TryPage extends ConsolePage {
  #models = [];
  #signatures = {};
  #fields = new Map();
  #model = element('select', {id: 'model', onchange: () => this.#choose()});
  #signature = element('select', {id: 'signature', onchange: () => this.#showForm()});
  #other = element('select', {id: 'other', onchange: () => this.#write()});
  // Words that the model knows, by signature and input, and files with examples.
  #known = {words: {}, files: []};
  #examples = element('try-examples', {hidden: true, onexample: (event) => this.#fill(event.detail)});
  #rows = element('try-rows');
  #addRow = element('button', {type: 'button', 'data-action': 'add-row', onclick: () => this.#add()}, 'Add as a row');
  #form = element('form', {class: 'fields', onsubmit: (event) => {
    event.preventDefault();
    this.#send();
  }});
  #answer = element('section', {class: 'card answer', 'aria-live': 'polite'}, element('p', {class: 'note'}, 'The answer comes here.'));
  #why = element('div', {class: 'stack'});

  connectedCallback() {
    this.classList.add('page');
    this.append(element('h1', {class: 'unseen'}, 'Try it'),
      element('div', {class: 'toolbar'},
        element('label', {class: 'control'}, element('span', {}, 'Model'), this.#model),
        element('label', {class: 'control'}, element('span', {}, 'Signature'), this.#signature),
        element('label', {class: 'control'}, element('span', {}, 'Compare with'), this.#other)),
      this.note, this.#examples, element('div', {class: 'two'}, element('div', {class: 'stack'}, this.#form, this.#rows), this.#answer));
    this.#load();
  }

  #load() {
    return this.attempt(async () => {
      const {servers} = await get('models', {}, this.signal);
      this.#models = servers.flatMap((server, place) => server.models.filter((model) => model.state === 'READY')
        .map((model) => ({server: place, url: server.server, name: model.name, version: model.version})));
      this.#model.replaceChildren(...this.#models.map((model, i) =>
        element('option', {value: i}, `${model.name} ${model.version} · ${model.url}`)));
      const wanted = readState();
      const found = this.#models.findIndex((model) => keyOf(model) === `${wanted.server?.[0]}/${wanted.version?.[0]}/${wanted.model?.[0]}`);
      this.#model.value = String(Math.max(0, found));
      this.#other.replaceChildren(element('option', {value: ''}, 'nothing'), ...this.#models.map((model) =>
        element('option', {value: keyOf(model), selected: keyOf(model) === wanted.other?.[0]}, `${model.name} ${model.version} · ${model.url}`)));
      if (this.#models.length === 0) this.note.textContent = 'No server has a model that answers.';
      else this.#choose();
    });
  }

  get #chosen() {
    return this.#models[Number(this.#model.value)];
  }

  #path({server, name, version} = this.#chosen) {
    return `models/${server}/${encodeURIComponent(name)}/${version}`;
  }

  #write() {
    const {server, name, version} = this.#chosen;
    writeState({server, model: name, version, other: this.#other.value});
  }

  async #choose() {
    this.#write();
    this.#rows.clear();
    try {
      this.#signatures = signaturesOf(await get(this.#path()));
      this.#known = await get(`${this.#path()}/form`);
      this.note.textContent = '';
    } catch (error) {
      this.note.textContent = error.message;
      this.#signatures = {};
    }
    const names = Object.keys(this.#signatures);
    this.#signature.replaceChildren(...names.map((one) => element('option', {value: one}, one)));
    if (names.includes('serving_default')) this.#signature.value = 'serving_default';
    this.#showForm();
  }

  #showForm() {
    this.#fields.clear();
    const inputs = this.#inputs;
    const words = this.#known.words[this.#signature.value] ?? {};
    for (const input of inputs) this.#fields.set(input, fieldOf(input, words[input.name] ?? null));
    this.#form.replaceChildren(...[...this.#fields.values()].map((field) => field.element),
      inputs.length ? element('span', {class: 'actions'}, element('button', {class: 'primary', type: 'submit'}, 'Predict'), this.#addRow) : '');
    this.#examples.show(this.#path(), inputs.length ? this.#known.files : [], inputs.map((input) => input.name));
  }

  get #inputs() {
    return this.#signatures[this.#signature.value] ?? [];
  }

  // A model of one text takes rows as they are in the file.
  #fill({values, raw, isBase64}) {
    const isRaw = this.#inputs.length === 1 && this.#inputs[0].type === 'DT_STRING' && !(this.#inputs[0].name in values);
    for (const [input, field] of this.#fields) {
      if (isRaw) field.write(isBase64 ? JSON.stringify({b64: raw}) : raw);
      else if (input.name in values) field.write(values[input.name]);
    }
  }

  #instance() {
    const entries = [...this.#fields].map(([input, field]) => [input.name, field.read()]);
    return entries.length === 1 ? entries[0][1] : Object.fromEntries(entries);
  }

  #add() {
    try {
      this.#rows.add(this.#instance());
    } catch (error) {
      this.#answer.replaceChildren(element('p', {class: 'problem'}, error.message));
    }
  }

  // The rows that were added, or what the form has.
  #body() {
    const rows = this.#rows.rows;
    return {signature_name: this.#signature.value, instances: rows.length > 0 ? rows : [this.#instance()]};
  }

  // The same with one field after the other as in an empty form, in one request.
  async #explain(body, prediction) {
    const inputs = [...this.#fields.keys()];
    if (inputs.length < 2 || !probabilitiesOf(prediction)) return;
    const instances = inputs.map((input) => ({...body.instances[0], [input.name]: exampleOf(input)}));
    const reply = await post(`${this.#path()}/predict`, {...body, instances});
    if (reply.status !== 200) return;
    const parts = contributions(prediction, inputs.map((input) => input.name), JSON.parse(reply.body).predictions);
    if (parts) this.#why.replaceChildren(element('h2', {}, 'What counted'), parts);
  }

  async #send() {
    try {
      const body = this.#body();
      const other = this.#models.find((model) => keyOf(model) === this.#other.value);
      if (body.instances.length > 1 || other) return await this.#sendAll(body, other);
      const reply = await post(`${this.#path()}/predict`, body);
      this.#why.replaceChildren();
      const prediction = this.#showAnswer(reply, JSON.stringify(body));
      await this.#explain(body, prediction);
    } catch (error) {
      this.#answer.replaceChildren(element('p', {class: 'problem'}, error.message));
    }
  }

  // To one version or two, whose answers stand beside each other.
  async #sendAll(body, other) {
    const models = other ? [this.#chosen, other] : [this.#chosen];
    const replies = await Promise.all(models.map((model) => post(`${this.#path(model)}/predict`, body)));
    const versions = replies.map((reply, i) => ({name: `${models[i].name} ${models[i].version}`, predictions: predictionsOf(reply)}));
    const failed = replies.filter((reply) => reply.status !== 200);
    this.#answer.replaceChildren(element('div', {class: 'head-line'}, element('h2', {}, 'Answers'),
      element('span', {class: 'aside'}, replies.map((reply) => `${reply.milliseconds.toFixed(1)} ms`).join(', '))),
    ...failed.map((reply) => element('p', {class: 'problem'}, reply.body.slice(0, 500))),
    answersTable(body.instances, versions, this.#inputs.some((input) => pictureSides(input))));
    this.dataset.status = failed[0]?.status ?? 200;
  }

  #showAnswer(reply, body) {
    let parsed = null;
    try {
      parsed = JSON.parse(reply.body);
    } catch {
      // Shown as it is.
    }
    const prediction = parsed?.predictions?.[0];
    const curl = curlLine(reply.url, body.length > kShortBody ? `${body.slice(0, kShortBody)}…` : body);
    this.#answer.replaceChildren(
      element('div', {class: 'head-line'}, element('h2', {}, reply.status === 200 ? 'Answer' : `Status ${reply.status}`),
        element('span', {class: 'aside'}, `${reply.milliseconds.toFixed(1)} ms`)),
      bars(prediction, [...this.#fields.keys()].some((input) => pictureSides(input))) ?? '', this.#why,
      element('pre', {tabindex: 0, class: reply.status === 200 ? null : 'problem'},
        parsed ? laidOut(parsed).slice(0, 4000) : reply.body),
      element('h2', {}, 'The same from a shell'),
      element('pre', {class: 'curl', tabindex: 0}, curl),
      element('button', {class: 'quiet', onclick: () => navigator.clipboard?.writeText(curlLine(reply.url, body))}, 'copy'));
    this.dataset.status = reply.status;
    return prediction;
  }
}

const keyOf = ({server, name, version}) => `${server}/${version}/${name}`;

function predictionsOf(reply) {
  try {
    return reply.status === 200 ? JSON.parse(reply.body).predictions ?? null : null;
  } catch {
    return null;
  }
}

/** JSON with lists of numbers and texts on one line each. */
function laidOut(value) {
  const one = String.raw`(?:"(?:[^"\\]|\\.)*"|[-+\d.eE]+|true|false|null)`;
  const list = new RegExp(String.raw`\[\s+(${one}(?:,\s+${one})*)\s+\]`, 'g');
  return JSON.stringify(value, null, 1).replace(list, (_, items) => `[${items.replace(/\n\s*/g, ' ')}]`);
}

customElements.define('try-page', TryPage);
