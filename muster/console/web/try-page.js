// <try-page>: a form made from a model's signature, the answer, and the same call for a shell.
import {bars, contributions, probabilitiesOf} from './answer.js';
import {get, post} from './api.js';
import {ConsolePage} from './console-page.js';
import {element} from './dom.js';
import './digit-pad.js';
import './picture-input.js';
import {readState, writeState} from './page-state.js';
import {curlLine, exampleOf, isDigit, pictureSides, shaped, signaturesOf} from './signature.js';

const kShortBody = 400;

class TryPage extends ConsolePage {
  #models = [];
  #signatures = {};
  #fields = new Map();
  #model = element('select', {id: 'model', onchange: () => this.#choose()});
  #signature = element('select', {id: 'signature', onchange: () => this.#showForm()});
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
        element('label', {class: 'control'}, element('span', {}, 'Signature'), this.#signature)),
      this.note, element('div', {class: 'two'}, this.#form, this.#answer));
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
      const found = this.#models.findIndex((model) => String(model.server) === wanted.server?.[0] &&
        model.name === wanted.model?.[0] && model.version === wanted.version?.[0]);
      this.#model.value = String(Math.max(0, found));
      if (this.#models.length === 0) this.note.textContent = 'No server has a model that answers.';
      else this.#choose();
    });
  }

  get #chosen() {
    return this.#models[Number(this.#model.value)];
  }

  #path() {
    const {server, name, version} = this.#chosen;
    return `models/${server}/${encodeURIComponent(name)}/${version}`;
  }

  async #choose() {
    const {server, name, version} = this.#chosen;
    writeState({server, model: name, version});
    try {
      this.#signatures = signaturesOf(await get(this.#path()));
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
    const inputs = this.#signatures[this.#signature.value] ?? [];
    this.#form.replaceChildren(...inputs.map((input) => this.#field(input)),
      inputs.length ? element('button', {class: 'primary', type: 'submit'}, 'Predict') : '');
  }

  #field(input) {
    const id = `input-${input.name}`;
    const label = element('label', {for: id}, input.name,
      element('span', {class: 'aside'}, ` ${input.type.slice(3).toLowerCase()} [${input.shape.join(', ')}]`));
    if (isDigit(input)) {
      const pad = element('digit-pad', {id});
      this.#fields.set(input, () => shaped(pad.pixels, input));
      return element('div', {class: 'field wide'}, label, pad);
    }
    const sides = pictureSides(input);
    if (sides) {
      const picture = element('picture-input');
      picture.picture = {sides, id};
      this.#fields.set(input, () => shaped(picture.pixels, input));
      return element('div', {class: 'field wide'}, label, picture);
    }
    const example = exampleOf(input);
    const isText = typeof example === 'string';
    const control = element(isText || typeof example !== 'object' ? 'input' : 'textarea', {id, type: 'text', rows: 2, spellcheck: 'false'});
    control.value = isText ? example : JSON.stringify(example);
    this.#fields.set(input, () => {
      if (isText) return control.value;
      try {
        return JSON.parse(control.value);
      } catch {
        throw new Error(`${input.name} is no JSON: ${control.value.slice(0, 40)}`);
      }
    });
    return element('div', {class: control.tagName === 'TEXTAREA' ? 'field wide' : 'field'}, label, control);
  }

  #body() {
    const entries = [...this.#fields].map(([input, read]) => [input.name, read()]);
    const instance = entries.length === 1 ? entries[0][1] : Object.fromEntries(entries);
    return {signature_name: this.#signature.value, instances: [instance]};
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
      const reply = await post(`${this.#path()}/predict`, body);
      this.#why.replaceChildren();
      const prediction = this.#showAnswer(reply, JSON.stringify(body));
      await this.#explain(body, prediction);
    } catch (error) {
      this.#answer.replaceChildren(element('p', {class: 'problem'}, error.message));
    }
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

/** JSON with lists of numbers and texts on one line each. */
function laidOut(value) {
  const one = String.raw`(?:"(?:[^"\\]|\\.)*"|[-+\d.eE]+|true|false|null)`;
  const list = new RegExp(String.raw`\[\s+(${one}(?:,\s+${one})*)\s+\]`, 'g');
  return JSON.stringify(value, null, 1).replace(list, (_, items) => `[${items.replace(/\n\s*/g, ' ')}]`);
}

customElements.define('try-page', TryPage);
