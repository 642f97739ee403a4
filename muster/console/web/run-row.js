// <run-row>: a run to choose, with its colour and its last step. Tells 'toggle' with {id, isPicked} and 'color' with {id,
// color}, null for the colour of its name again.
import {element} from './dom.js';
import {number} from './format.js';
import {addressOf, notesOf, tagLabels} from './run-label.js';

let count = 0;

class RunRow extends HTMLElement {
  #run = null;
  #id = `run-${++count}`;
  #box = element('input', {type: 'checkbox', id: this.#id,
                           onchange: () => this.#tell('toggle', {isPicked: this.#box.checked})});
  #color = element('input', {type: 'color', class: 'color', onchange: () => this.#tell('color', {color: this.#color.value}),
                             onkeydown: (event) => {
                               if (event.key === 'Delete') this.#tell('color', {color: null});
                             }});
  #name = element('span', {class: 'name'});
  #tags = element('span', {class: 'tags'});
  #page = element('a', {class: 'page-link'}, '›');
  #warning = element('span', {class: 'warn', role: 'img', 'aria-label': 'has a problem', hidden: true}, '!');
  #step = element('span', {class: 'aside'});
  #label = element('label', {for: this.#id}, this.#name, this.#tags, this.#warning, this.#step);

  connectedCallback() {
    if (this.childElementCount === 0) this.append(this.#box, this.#color, this.#label, this.#page);
  }

  /** A run as the console lists it, with its colour, the name that is shown, and whether it is chosen. */
  show(run, name, isPicked) {
    this.#run = run;
    this.#box.checked = isPicked;
    this.#color.value = run.color;
    this.#color.title = `Colour of ${run.id}. Delete: that of its name`;
    this.#color.setAttribute('aria-label', `Colour of ${run.id}`);
    this.#name.textContent = notesOf(run).isPinned ? `★ ${name}` : name;
    this.#tags.replaceChildren(...tagLabels(run));
    this.#page.href = addressOf(run);
    this.#page.setAttribute('aria-label', `Page of ${run.id}`);
    this.#page.title = `Page of ${run.id}`;
    this.#label.title = run.problem || run.id;
    this.#warning.hidden = !run.problem;
    this.#step.textContent = run.isRead ? number(run.step) : '…';
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, {bubbles: true, detail: {id: this.#run.id, ...detail}}));
  }
}

customElements.define('run-row', RunRow);
