// <muster-app>: the frame around the pages, and which page the address names.
import {currentSession} from './api.js';
import {element} from './dom.js';
import {LiveEvents} from './live.js';
import './token-form.js';

const kPages = [
  {path: '/runs', label: 'Runs', component: 'runs-page', has: () => true},
  {path: '/run', label: 'Run', component: 'run-page', has: () => true, parent: '/runs'},
  {path: '/jobs', label: 'Jobs', component: 'jobs-page', has: (session) => session.hasJobs},
  {path: '/cluster', label: 'Cluster', component: 'cluster-page', has: (session) => session.hasJobs},
  {path: '/studies', label: 'Studies', component: 'studies-page', has: () => true},
  {path: '/models', label: 'Models', component: 'models-page', has: (session) => session.hasModels || session.hasRegistry},
  {path: '/try', label: 'Try it', component: 'try-page', has: (session) => session.hasModels},
];

class MusterApp extends HTMLElement {
  #live = new LiveEvents();
  #nav = element('nav', {'aria-label': 'Pages'});
  #main = element('main', {id: 'main', tabindex: -1});
  #lamp = element('span', {class: 'lamp', role: 'status'}, 'connecting');

  connectedCallback() {
    this.replaceChildren(
      element('a', {class: 'skip', href: '#main'}, 'Skip to content'),
      element('header', {class: 'top'}, element('a', {class: 'brand', href: '/runs'}, 'muster'), this.#nav, this.#lamp),
      this.#main);
    this.#live.addEventListener('connected', () => this.#setLamp('live', 'up'));
    this.#live.addEventListener('lost', () => this.#setLamp('no connection', 'down'));
    this.addEventListener('click', (event) => this.#follow(event));
    addEventListener('popstate', () => this.#show());
    this.#start();
  }

  #setLamp(text, state) {
    this.#lamp.textContent = text;
    this.#lamp.dataset.state = state;
  }

  async #start() {
    try {
      const session = await currentSession();
      this.pages = kPages.filter((page) => page.has(session));
      this.#live.open();
      this.#show();
    } catch (error) {
      if (error.status === 401) return this.#askToken();
      this.#main.replaceChildren(element('p', {class: 'note', role: 'alert'}, error.message));
    }
  }

  #askToken() {
    const form = element('token-form', {ontoken: () => this.#start()});
    this.#main.replaceChildren(form);
  }

  async #show() {
    const page = this.pages.find((one) => one.path === location.pathname) ?? this.pages[0];
    this.#nav.replaceChildren(...this.pages.filter((one) => !one.parent).map((one) => element('a', {
      href: one.path, 'aria-current': one === page ? 'page' : one.path === page.parent ? 'true' : null}, one.label)));
    document.title = `${page.label} · muster`;
    await import(`./${page.component}.js`);
    const made = document.createElement(page.component);
    made.live = this.#live;
    this.#main.replaceChildren(made);
  }

  // Links between pages need no load.
  #follow(event) {
    const link = event.target.closest('a[href^="/"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    if (link.href === location.href) return;
    history.pushState(null, '', link.href);
    this.#show();
  }
}

customElements.define('muster-app', MusterApp);
