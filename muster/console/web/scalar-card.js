// <scalar-card>: the curves of one tag. It asks for them when it comes into view, and again when its runs have news; where
// a part of them is zoomed into, for that part alone, with all points that it has. Tells 'range' with the part that is seen,
// [from, to], or null; 'move', 'pin' and 'size' with what the reader wants of its place (chart-handles.js).
import {download, get, save} from './api.js';
import {startsOf, wantedRanges, xsOf} from './axis.js';
import {moveHandle, sizeHandle} from './chart-handles.js';
import {kUsualHeight} from './chart-layout.js';
import {groupedCurves} from './curve-groups.js';
import {element} from './dom.js';
import {isOfMachine, taskOf} from './run-label.js';
import './line-chart.js';

const kRefresh = 1000;

class ScalarCard extends HTMLElement {
  #tag = '';
  #runs = [];
  #options = null;
  #curves = [];
  // A range to see once the curves are there.
  #wanted = null;
  // The range seen while zoomed in, and its curves.
  #zoom = null;
  #finer = null;
  #isSeen = false;
  #isAsked = false;
  #last = 0;
  #timer = 0;
  #chart = element('line-chart');
  #size = {height: kUsualHeight, isWide: false};
  #pin = element('button', {class: 'quiet', title: 'Keep this chart in front', onclick: () => this.#askPin()}, 'Pin');
  #seen = new IntersectionObserver((entries) => this.#onSeen(entries.at(-1).isIntersecting), {rootMargin: '200px'});

  connectedCallback() {
    this.#seen.observe(this);
    if (this.#chart.isConnected) return;
    this.append(
      element('header', {}, moveHandle(this, this.#tag), element('h2', {}, this.#tag),
        element('span', {class: 'actions'}, this.#pin,
          element('button', {class: 'quiet', title: 'Save these curves as CSV', onclick: () => this.#save()}, 'CSV'),
          element('button', {class: 'quiet', title: 'Save this chart as a picture', onclick: () => this.#savePicture()}, 'PNG'),
          element('button', {class: 'quiet', title: 'Save this chart as a drawing', onclick: () => this.#saveVector()}, 'SVG'))),
      this.#chart, sizeHandle(this, this.#tag, () => this.#size));
    this.#chart.addEventListener('zoom', (event) => this.#onZoom(event.detail));
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

  /** Its size, {height, isWide}, and whether it is pinned. */
  place(size, isPinned) {
    this.#size = size;
    this.#chart.height = size.height;
    this.classList.toggle('wide', size.isWide);
    this.#pin.setAttribute('aria-pressed', String(isPinned));
    this.#pin.textContent = isPinned ? 'Pinned' : 'Pin';
  }

  #askPin() {
    this.dispatchEvent(new CustomEvent('pin', {detail: this.#pin.getAttribute('aria-pressed') !== 'true'}));
  }

  /** The part of the axis that is seen at first: [from, to], once. */
  set range(range) {
    this.#wanted = range;
  }

  /**
   * [{id, name, color, batch, group, groupColor}] and the chart's options; with `isGrouped`, runs of the same group are drawn
   * as one.
   */
  show(runs, options) {
    const isSame = runs.map((run) => run.id).join('\n') === this.#runs.map((run) => run.id).join('\n');
    this.#runs = runs;
    if (options.x !== this.#options?.x) this.#zoom = this.#finer = null;
    this.#options = options;
    if (isSame && this.#curves.length > 0) this.#draw();
    else this.refresh();
  }

  /** Marks what is near the cursor of another chart. */
  markAt(x) {
    if (this.#isSeen) this.#chart.markAt(x);
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

  // Points that were left out of the whole are asked for; those that are there already are not.
  #onZoom(zoom) {
    this.#zoom = zoom;
    this.#finer = null;
    this.dispatchEvent(new CustomEvent('range', {detail: zoom}));
    if (zoom === null) this.#draw();
    if (zoom === null || this.#curves.some((curve) => !curve.isWhole)) this.refresh();
  }

  async #load() {
    this.#isAsked = false;
    this.#last = performance.now();
    const zoom = this.#zoom;
    try {
      const curves = await this.#ask(zoom);
      if (zoom === null) this.#curves = curves;
      else if (zoom === this.#zoom) this.#finer = curves;
      this.#draw();
      if (this.#wanted && curves.length > 0) this.#chart.zoomTo(...this.#wanted);
      this.#wanted = null;
    } catch (error) {
      this.#chart.setAttribute('label', `${this.#tag}: ${error.message}`);
    } finally {
      this.#timer = 0;
      if (this.#isAsked) this.refresh();
    }
  }

  async #ask(zoom) {
    if (this.#runs.length === 0) return [];
    const range = zoom ? wantedRanges(this.#options.x, zoom, this.#runs, startsOf(this.#curves)) : {};
    const points = 2 * Math.max(200, this.clientWidth);
    return (await get('scalars', {tag: this.#tag, run: this.#runs.map((run) => run.id), points, ...range})).curves;
  }

  #draw() {
    const runs = new Map(this.#runs.map((run) => [run.id, run]));
    const starts = startsOf(this.#curves);
    const curves = (this.#finer ?? this.#curves).filter((curve) => runs.has(curve.run)).map((curve) => ({
      ...curve,
      name: [runs.get(curve.run).name, isOfMachine(curve) ? taskOf(curve) : curve.evaluation].filter(Boolean).join(' '),
      color: runs.get(curve.run).color,
      group: runs.get(curve.run).group,
      groupColor: runs.get(curve.run).groupColor,
      dashed: curve.evaluation !== '' && !isOfMachine(curve),
      xs: xsOf(curve, this.#options.x, runs.get(curve.run), starts.get(curve.run)),
    })).filter((curve) => curve.xs !== null);
    this.dataset.curves = curves.length;
    this.dataset.points = curves.reduce((sum, curve) => sum + curve.xs.length, 0);
    this.#chart.show(this.#options.isGrouped ? groupedCurves(curves) : curves, this.#options);
  }

  get #fileName() {
    return this.#tag.replace(/[^A-Za-z0-9]/g, '_');
  }

  #save() {
    download('scalars.csv', {tag: this.#tag, run: this.#runs.map((run) => run.id)},
             `${this.#fileName}.csv`);
  }

  #saveVector() {
    const text = this.#chart.vector(this.#tag);
    if (text) save(new Blob([text], {type: 'image/svg+xml'}), `${this.#fileName}.svg`);
  }

  async #savePicture() {
    save(await this.#chart.picture(this.#tag), `${this.#fileName}.png`);
  }
}

customElements.define('scalar-card', ScalarCard);
