// <muster-report>: the runs of a report and the page of each, as the console shows them, from what the file holds.
import {report} from './api.js';
import {element} from './dom.js';
import {readState} from './page-state.js';
import './run-page.js';
import './runs-page.js';

class MusterReport extends HTMLElement {
  #main = element('main', {id: 'main', tabindex: -1});

  connectedCallback() {
    this.classList.add('report');
    this.replaceChildren(element('a', {class: 'skip', href: '#main', onclick: (event) => {
      event.preventDefault();
      this.#main.focus();
    }}, 'Skip to content'),
    element('header', {class: 'top'}, element('a', {class: 'brand', href: '/runs'}, report.title), element('span', {class: 'fill'}),
      element('span', {class: 'aside'}, `muster ${report.version}`)), this.#main);
    this.addEventListener('click', (event) => this.#follow(event));
    addEventListener('popstate', () => this.#show());
    this.#show();
  }

  #show() {
    const made = document.createElement(readState().id ? 'run-page' : 'runs-page');
    made.live = new EventTarget();
    this.#main.replaceChildren(made);
  }

  // Addresses of the console are places in this file; those of pages that it has not lead nowhere.
  #follow(event) {
    const link = event.target.closest('a[href^="/"]');
    if (!link) return;
    event.preventDefault();
    const {pathname, search} = new URL(link.getAttribute('href'), 'file:///');
    if (pathname !== '/run' && pathname !== '/runs') return;
    history.pushState(null, '', `#${search.slice(1)}`);
    this.#show();
  }
}

customElements.define('muster-report', MusterReport);
