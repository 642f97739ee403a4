// <run-notes>: what people have noted of a run, and a form to change it. Tells 'save' with {name, tags, text, isPinned,
// isArchived}.
import {element} from './dom.js';

class RunNotes extends HTMLElement {
  #name = element('input', {type: 'text', id: 'notes-name', maxlength: 200});
  #tags = element('input', {type: 'text', id: 'notes-tags', placeholder: 'paper, baseline'});
  #text = element('textarea', {id: 'notes-text', rows: 3, maxlength: 10000});
  #isPinned = element('input', {type: 'checkbox', id: 'notes-pinned'});
  #isArchived = element('input', {type: 'checkbox', id: 'notes-archived'});
  #save = element('button', {class: 'primary'}, 'Save');
  #state = element('span', {class: 'aside', role: 'status'});
  #isChanged = false;

  /** The notes, and whether they may be changed. What is being typed stays. */
  show(notes, canChange) {
    if (!canChange) return this.#showText(notes);
    if (!this.firstElementChild) this.#build();
    if (this.#isChanged) return;
    this.#name.value = notes.name;
    this.#tags.value = notes.tags.join(', ');
    this.#text.value = notes.text;
    this.#isPinned.checked = notes.isPinned;
    this.#isArchived.checked = notes.isArchived;
  }

  /** Says how saving went; "" is well. */
  saved(problem) {
    this.#state.textContent = problem || 'saved';
    if (!problem) this.#isChanged = false;
  }

  #showText(notes) {
    this.replaceChildren(element('p', {}, notes.text || 'There are no notes. A console with --allow-changes can write some.'));
  }

  #build() {
    const field = (label, input) => element('div', {class: 'field'}, element('label', {for: input.id}, label), input);
    const box = (label, input) => element('label', {class: 'control'}, input, element('span', {}, label));
    this.append(element('form', {class: 'fields', oninput: () => {
      this.#isChanged = true;
      this.#state.textContent = '';
    }, onsubmit: (event) => this.#send(event)},
    field('Name', this.#name), field('Tags, separated by commas', this.#tags),
    element('div', {class: 'field wide'}, element('label', {for: 'notes-text'}, 'Note'), this.#text),
    element('div', {class: 'actions wide'}, box('Pinned', this.#isPinned), box('Archived', this.#isArchived), this.#save, this.#state)));
  }

  #send(event) {
    event.preventDefault();
    this.dispatchEvent(new CustomEvent('save', {detail: {
      name: this.#name.value.trim(),
      tags: this.#tags.value.split(',').map((tag) => tag.trim()).filter(Boolean),
      text: this.#text.value,
      isPinned: this.#isPinned.checked,
      isArchived: this.#isArchived.checked,
    }}));
  }
}

customElements.define('run-notes', RunNotes);
