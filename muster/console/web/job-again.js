// <job-again>: the arguments and the folder of a job, to be changed before it is submitted again. Tells 'again' with
// {args, jobDir}, as the console takes them.
import {element} from './dom.js';

class JobAgain extends HTMLElement {
  #id = '';
  #first = '';
  #firstWords = '';
  #words = element('textarea', {rows: 6, 'aria-label': 'Arguments, one in a line', spellcheck: 'false'});
  #folder = element('input', {type: 'text', 'aria-label': 'Folder of the run'});
  #place = element('label', {class: 'field'}, element('span', {}, '--job-dir'), this.#folder);

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.append(element('form', {class: 'stack', onsubmit: (event) => this.#submit(event)},
      element('label', {class: 'field'}, element('span', {}, 'Arguments, one in a line'), this.#words), this.#place,
      element('span', {class: 'actions'}, element('button', {class: 'primary', 'data-action': 'submit-again'}, 'Submit'),
        element('button', {type: 'button', onclick: () => { this.parentElement.hidden = true; }}, 'Close'))));
  }

  /** The definition of the job, as `jobs/NAME` has it; what the reader has typed stays. */
  show({jobId, trainingInput}) {
    if (jobId === this.#id) return;
    this.#id = jobId;
    this.#first = trainingInput?.jobDir ?? '';
    this.#firstWords = this.#words.value = (trainingInput?.args ?? []).join('\n');
    this.#folder.value = this.#first;
    this.#place.hidden = !this.#first;
  }

  #submit(event) {
    event.preventDefault();
    const changes = {};
    if (this.#words.value !== this.#firstWords) changes.args = this.#words.value.split('\n').filter((word) => word !== '');
    if (this.#folder.value !== this.#first) changes.jobDir = this.#folder.value;
    this.dispatchEvent(new CustomEvent('again', {detail: changes}));
  }
}

customElements.define('job-again', JobAgain);
