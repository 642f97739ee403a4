// <scalar-card>: the curves of one tag. It asks for them when it comes into view, and again when its runs have news.
import {download, get} from './api.js';
import {element} from './dom.js';
import './line-chart.js';

const kRefresh = 1000;

class ScalarCard extends HTMLElement {
  #tag = '';
  #runs = [];
  #options = null;
  #curves = [];
  #isSeen = false;
  #isAsked = false;
  #last = 0;
  #timer = 0;
  #chart = element('line-chart');
  #seen = new IntersectionObserver((entries) => this.#onSeen(entries.at(-1).isIntersecting), {rootMargin: '200px'});

  connectedCallback() {
    this.#seen.observe(this);
    if (this.#chart.isConnected) return;
    this.append(
      element('header', {}, element('h3', {}, this.#tag),
        element('button', {class: 'quiet', title: 'Save these curves as CSV', onclick: () => this.#save()}, 'CSV')),
      this.#chart);
  }

  disconnectedCallback() {
    this.#seen.disconnect();
    clearTimeout(this.#timer);
  }

  /** The tag, once. */
  set tag(tag) {
    this.#tag = tag;
    this.dataset.tag = tag;
    this.#chart.setAttribute('label', tag);
  }

  /** [{id, color}] and the chart's options. */
  show(runs, options) {
    const isSame = runs.map((run) => run.id).join('\n') === this.#runs.map((run) => run.id).join('\n');
    this.#runs = runs;
    this.#options = options;
    if (isSame && this.#curves.length > 0) this.#draw();
    else this.refresh();
  }

  /** Something of its runs has changed. */
  refresh() {
    this.#isAsked = true;
    if (!this.#isSeen || this.#timer) return;
    const wait = Math.max(0, this.#last + kRefresh - performance.now());
    this.#timer = setTimeout(() => this.#load(), wait);
  }

  #onSeen(isSeen) {
    this.#isSeen = isSeen;
    if (isSeen && this.#isAsked) this.refresh();
  }

  async #load() {
    this.#isAsked = false;
    this.#last = performance.now();
    const runs = this.#runs.map((run) => run.id);
    try {
      this.#curves = runs.length === 0 ? [] :
        (await get('scalars', {tag: this.#tag, run: runs, points: 2 * Math.max(200, this.clientWidth)})).curves;
      this.#draw();
    } catch (error) {
      this.#chart.setAttribute('label', `${this.#tag}: ${error.message}`);
    } finally {
      this.#timer = 0;
      if (this.#isAsked) this.refresh();
    }
  }

  #draw() {
    const colors = new Map(this.#runs.map((run) => [run.id, run.color]));
    const curves = this.#curves.filter((curve) => colors.has(curve.run)).map((curve) => ({
      ...curve,
      name: curve.evaluation ? `${curve.run} ${curve.evaluation}` : curve.run,
      color: colors.get(curve.run),
      dashed: curve.evaluation !== '',
    }));
    this.dataset.curves = curves.length;
    this.#chart.show(curves, this.#options);
  }

  #save() {
    download('scalars.csv', {tag: this.#tag, run: this.#runs.map((run) => run.id)},
             `${this.#tag.replace(/[^A-Za-z0-9]/g, '_')}.csv`);
  }
}

customElements.define('scalar-card', ScalarCard);
