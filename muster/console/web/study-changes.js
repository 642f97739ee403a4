// <study-changes>: stops a study that runs, and runs more trials of one that does not. Tells 'changed'.
import {post} from './api.js';
import {element} from './dom.js';

const kLookAgain = 1000;

class StudyChanges extends HTMLElement {
  #study = null;
  #isStopping = false;
  #note = element('p', {class: 'note', role: 'status'});
  #stop = element('button', {type: 'button', class: 'danger', 'data-action': 'stop', onclick: () => this.#askStop()}, 'Stop');
  #trials = element('input', {type: 'number', min: 1, max: 1000, value: 10, required: true, 'aria-label': 'More trials'});
  #extend = element('form', {class: 'actions', onsubmit: (event) => {
    event.preventDefault();
    this.#askExtend();
  }}, this.#trials, element('button', {'data-action': 'extend'}, 'more trials'));

  connectedCallback() {
    if (this.childElementCount === 0) this.append(element('div', {class: 'actions'}, this.#stop, this.#extend), this.#note);
  }

  /** A study as the console tells of it. */
  show(study) {
    this.#study = study;
    this.#stop.hidden = !study.isRunning;
    this.#extend.hidden = study.isRunning;
    if (!study.isRunning && this.#isStopping) this.#note.textContent = 'The study is stopped.';
    this.#isStopping &&= study.isRunning;
    // The end of a process is no event of the console.
    if (this.#isStopping) setTimeout(() => this.#tell(), kLookAgain);
  }

  #askStop() {
    if (!confirm(`Stop ${this.#study.id}? Its trials save and exit; the study can be resumed.`)) return;
    this.#isStopping = true;
    this.#change('stop', {}, () => ['The study is asked to stop.']);
  }

  #askExtend() {
    const trials = Number(this.#trials.value);
    if (!confirm(`Run ${trials} more trials of ${this.#study.id}? The program is:\n\n${this.#study.command.join(' ')}`)) return;
    this.#change('extend', {trials}, ({job}) => [`${trials} more trials: `, element('a', {href: `/jobs?job=${encodeURIComponent(job)}`}, `job ${job}`)]);
  }

  #tell() {
    if (this.isConnected) this.dispatchEvent(new CustomEvent('changed'));
  }

  async #change(action, body, said) {
    try {
      this.#note.replaceChildren(...said(await post(`study/${action}?id=${encodeURIComponent(this.#study.id)}`, body)));
      this.#tell();
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }
}

customElements.define('study-changes', StudyChanges);
