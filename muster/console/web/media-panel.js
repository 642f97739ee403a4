// <media-panel>: images, histograms, texts, graphs and precision-recall curves of runs.
import {get} from './api.js';
import {element} from './dom.js';
import {later} from './later.js';
import './media-card.js';

const kOrder = ['image', 'pr_curve', 'text', 'histogram', 'graph'];

class MediaPanel extends HTMLElement {
  #runs = [];
  #words = [];
  #cards = new Map();
  #note = element('p', {class: 'note', role: 'status'});
  #list = element('div', {class: 'charts media'});
  #loadSoon = later(() => this.#load());
  #ids = '';

  connectedCallback() {
    if (this.childElementCount === 0) this.append(this.#note, this.#list);
  }

  /** [{id, color}] and words that tags have. */
  show(runs, words) {
    this.#runs = runs;
    this.#words = words;
    const ids = runs.map((run) => run.id + run.color).join('\n') + words.join(' ');
    if (ids === this.#ids) return;
    this.#ids = ids;
    this.#load();
  }

  /** Something of its runs has changed. */
  refresh() {
    if (!this.hidden) this.#loadSoon();
  }

  async #load() {
    if (this.#runs.length === 0) return this.#draw([]);
    try {
      const {media} = await get('media', {run: this.#runs.map((run) => run.id)});
      this.#draw(media);
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }

  #draw(media) {
    const wanted = media.filter(({tag}) => this.#words.every((word) => tag.toLowerCase().includes(word)));
    const groups = grouped(wanted, keyOf);
    const colors = new Map(this.#runs.map((run) => [run.id, run.color]));
    const keys = [...groups.keys()].sort((a, b) => rankOf(groups.get(a)[0]) - rankOf(groups.get(b)[0]) || a.localeCompare(b));
    this.#cards.forEach((card) => card.remove());
    this.#note.textContent = keys.length > 0 ? '' : media.length > 0 ? `Nothing of these runs matches “${this.#words.join(' ')}”.` :
      'The chosen runs have no images, histograms, texts, graphs or precision-recall curves.';
    const cards = new Map();
    for (const key of keys) {
      const runs = groups.get(key).map((one) => `${one.run}\n${one.evaluation}`).join('\n');
      let card = this.#cards.get(key);
      // Other runs were chosen: the card is replaced.
      if (!card || card.runs !== runs) {
        card = document.createElement('media-card');
        card.subject = groups.get(key)[0];
        card.runs = runs;
      }
      cards.set(key, card);
      this.#list.append(card);
      card.show(groups.get(key), colors);
    }
    this.#cards = cards;
  }
}

const keyOf = (one) => `${one.kind}\n${one.tag}`;
const rankOf = (one) => kOrder.indexOf(one.kind);

function grouped(list, key) {
  const groups = new Map();
  for (const one of list) groups.set(key(one), [...(groups.get(key(one)) ?? []), one]);
  return groups;
}

customElements.define('media-panel', MediaPanel);
