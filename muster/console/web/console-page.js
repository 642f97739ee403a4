// The common parts of pages: events of the console that they hear, one line that says what is wrong, and an end.
import {element} from './dom.js';

export class ConsolePage extends HTMLElement {
  #stop = new AbortController();
  /** Says what is missing or has failed. */
  note = element('p', {class: 'note', role: 'status'});

  /** What is done when an event comes: {jobs: (detail) => ...}. */
  get news() {
    return {};
  }

  /** The events of the console, once. */
  set live(live) {
    const {signal} = this.#stop;
    for (const [name, act] of Object.entries(this.news)) live.addEventListener(name, ({detail}) => act(detail), {signal});
  }

  /** Aborts requests of the page once it is gone. */
  get signal() {
    return this.#stop.signal;
  }

  disconnectedCallback() {
    this.#stop.abort();
  }

  /** Waits for `act`; what it throws is told, unless the page is gone. */
  async attempt(act) {
    try {
      await act();
    } catch (error) {
      if (error.name !== 'AbortError') this.note.textContent = error.message;
    }
  }
}
