// <try-examples>: rows of files, to fill a form with. Tells 'example' with a row of the console: {values, raw, isBase64}.
import {get} from './api.js';
import {element} from './dom.js';

const kRows = 50;
const kMostLetters = 70;

class TryExamples extends HTMLElement {
  #path = '';
  #inputs = [];
  #rows = [];
  #file = element('select', {id: 'example-file', onchange: () => this.#load()});
  #row = element('select', {id: 'example-row', onchange: () => this.#choose()});
  #others = element('p', {class: 'aside others', role: 'status'});

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('div', {class: 'toolbar'},
      element('label', {class: 'control'}, element('span', {}, 'Examples of'), this.#file),
      element('label', {class: 'control'}, element('span', {}, 'Row'), this.#row)), this.#others);
  }

  /** The path of a version in the console's calls, the files that there are, and the names of its inputs. */
  show(path, files, inputs) {
    this.hidden = files.length === 0;
    this.#path = path;
    this.#inputs = inputs;
    const chosen = this.#file.value;
    this.#file.replaceChildren(...files.map(({name}) => element('option', {value: name, selected: name === chosen}, name)));
    if (files.length > 0) this.#load();
  }

  async #load() {
    this.#others.textContent = '';
    try {
      const {rows} = await get(`${this.#path}/rows`, {file: this.#file.value, count: kRows, input: this.#inputs});
      this.#rows = rows;
    } catch (error) {
      this.#rows = [];
      this.#others.textContent = error.message;
    }
    this.#row.replaceChildren(element('option', {value: ''}, 'choose one'),
      ...this.#rows.map((row, i) => element('option', {value: i}, `${i + 1}: ${summaryOf(row)}`)));
    this.dataset.rows = this.#rows.length;
  }

  #choose() {
    const row = this.#rows[Number(this.#row.value)];
    if (this.#row.value === '' || !row) return;
    // Fields that are no inputs, such as the label.
    const others = Object.entries(row.values).filter(([name]) => !this.#inputs.includes(name)).map(([name, value]) => `${name}: ${String(value).slice(0, 40)}`);
    this.#others.textContent = others.length > 0 ? `Also in this row: ${others.join(', ')}` : '';
    this.dispatchEvent(new CustomEvent('example', {detail: row}));
  }
}

function summaryOf({values, raw}) {
  const texts = Object.values(values).map((value) => typeof value === 'string' ? value : JSON.stringify(value));
  const text = texts.length > 0 ? texts.join(', ') : raw;
  return text.length > kMostLetters ? `${text.slice(0, kMostLetters)}…` : text;
}

customElements.define('try-examples', TryExamples);
