// <study-row>: a study in the list of runs, whose trials are folded below it. Tells 'fold', and 'toggleall' with
// {id, isPicked} of all its trials.
import {element} from './dom.js';

class StudyRow extends HTMLElement {
  #id = '';
  #box = element('input', {type: 'checkbox', onchange: () => this.#tell('toggleall', {isPicked: this.#box.checked})});
  #name = element('span', {class: 'name'});
  #count = element('span', {class: 'aside'});
  #fold = element('button', {class: 'fold', onclick: () => this.#tell('fold', {})}, this.#name, this.#count);

  connectedCallback() {
    if (this.childElementCount === 0) this.append(this.#box, this.#fold);
  }

  /** The id of the study, how many of its trials there are and are chosen, and whether they are seen. */
  show(id, trials, picked, isOpen) {
    this.#id = id;
    this.#box.checked = picked === trials && trials > 0;
    this.#box.indeterminate = picked > 0 && picked < trials;
    this.#box.setAttribute('aria-label', `All trials of ${id}`);
    this.#name.textContent = id;
    this.#fold.title = id;
    this.#fold.setAttribute('aria-expanded', String(isOpen));
    this.#count.textContent = picked > 0 ? `${picked} of ${trials} trials` : `${trials} ${trials === 1 ? 'trial' : 'trials'}`;
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, {bubbles: true, detail: {id: this.#id, ...detail}}));
  }
}

customElements.define('study-row', StudyRow);
