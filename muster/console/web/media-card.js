// <media-card>: one tag of one kind (images, histograms, texts, a graph, precision-recall curves) of several runs, at a step that a slider chooses.
import {get, getBlob} from './api.js';
import {element} from './dom.js';
import './graph-view.js';
import {number} from './format.js';
import {distributionOf} from './distribution.js';
import {histogramOf} from './histogram.js';
import {prCurveOf} from './pr-curve.js';
import {tableOf} from './table-text.js';

class MediaCard extends HTMLElement {
  #kind = '';
  #tag = '';
  #media = [];
  #steps = [];
  #colors = new Map();
  // The media shown of each run, so that nothing is asked for twice.
  #shown = new Map();
  #distributions = new Map();
  #figures = element('div', {class: 'figures'});
  #at = element('output', {class: 'aside'});
  #slider = element('input', {type: 'range', min: 0, step: 1, oninput: () => this.#choose()});
  #isLast = true;

  connectedCallback() {
    if (this.childElementCount > 0) return;
    this.#slider.setAttribute('aria-label', `Step of ${this.#tag}`);
    this.append(element('header', {}, element('h2', {}, this.#tag), this.#at), this.#slider, this.#figures);
  }

  /** Which one it is, once. */
  set subject({kind, tag}) {
    this.#kind = kind;
    this.#tag = tag;
    this.dataset.kind = kind;
    this.dataset.tag = tag;
  }

  /** What the console lists of it, run by run, and the colours of runs. */
  show(media, colors) {
    this.#media = media;
    this.#colors = colors;
    this.#steps = [...new Set(media.flatMap((one) => one.steps))].sort((a, b) => a - b);
    this.#slider.max = Math.max(0, this.#steps.length - 1);
    this.#slider.hidden = this.#steps.length < 2;
    if (this.#isLast) this.#slider.value = this.#slider.max;
    this.#draw();
  }

  #choose() {
    this.#isLast = this.#slider.value === this.#slider.max;
    this.#draw();
  }

  #draw() {
    const step = this.#steps[Number(this.#slider.value)];
    this.#at.textContent = this.#kind === 'graph' ? '' : `step ${number(step)}`;
    for (const one of this.#media) {
      const nearest = one.steps.filter((other) => other <= step).at(-1) ?? one.steps[0];
      this.#figure(one, nearest);
    }
  }

  #figure(one, step) {
    const key = `${one.run}\n${one.evaluation}`;
    let figure = this.#shown.get(key);
    if (!figure) {
      const name = one.evaluation ? `${one.run} ${one.evaluation}` : one.run;
      figure = element('figure', {color: this.#colors.get(one.run)}, element('div', {class: 'content'}),
        element('figcaption', {class: 'with-dot aside'}, element('i', {class: 'dot'}), name));
      this.#shown.set(key, figure);
      this.#figures.append(figure);
    }
    if (figure.dataset.step === String(step)) return;
    figure.dataset.step = step;
    this.#fill(figure, one, step);
  }

  async #fill(figure, one, step) {
    const query = {run: one.run, evaluation: one.evaluation, kind: this.#kind, tag: this.#tag, step};
    let made;
    try {
      made = await this.#made(query);
    } catch (error) {
      made = element('p', {class: 'problem'}, error.message);
    }
    // The slider may have gone on meanwhile.
    if (figure.dataset.step !== String(step)) return;
    figure.firstElementChild.replaceChildren(made);
    this.dataset.isReady = 'yes';
  }

  // How the histograms of a run change; they are asked for again only when there are others.
  async #bands({run, evaluation}) {
    const key = `${run}\n${evaluation}`;
    const {steps} = this.#media.find((one) => one.run === run && one.evaluation === evaluation) ?? {steps: []};
    if (steps.length < 2) return null;
    const known = this.#distributions.get(key);
    const bands = known?.last === steps.at(-1) ? known.bands : await get('media.bands', {run, evaluation, tag: this.#tag});
    this.#distributions.set(key, {last: steps.at(-1), bands});
    return distributionOf(bands, this.#tag);
  }

  async #made(query) {
    if (this.#kind === 'image') return pictureOf(await getBlob('media.item', query), `${this.#tag} at step ${query.step}`);
    const item = await get('media.item', query);
    if (this.#kind === 'histogram') return element('div', {}, histogramOf(item, this.#tag), await this.#bands(query));
    if (this.#kind === 'pr_curve') return prCurveOf(item, this.#tag);
    if (this.#kind === 'text') return element('div', {}, item.texts.map((text) => tableOf(text, this.#tag) ?? element('pre', {tabindex: 0}, text)));
    const view = element('graph-view');
    view.show(item.nodes, item.isWhole, `Graph of ${query.run} ${query.evaluation}`);
    return view;
  }
}

/** Drawn on a canvas: the page's policy lets no other pictures in. */
async function pictureOf(blob, label) {
  const bitmap = await createImageBitmap(blob);
  const canvas = element('canvas', {width: bitmap.width, height: bitmap.height, role: 'img', 'aria-label': label,
                                    class: bitmap.width < 100 ? 'small picture' : 'picture'});
  canvas.getContext('2d').drawImage(bitmap, 0, 0);
  bitmap.close();
  return canvas;
}

customElements.define('media-card', MediaCard);
