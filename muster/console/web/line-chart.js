// <line-chart>: curves over steps or time, drawn on a canvas. Drag to zoom, double click to see all; with the keyboard,
// arrows move the cursor, Escape sees all.
import {kUsualHeight} from './chart-layout.js';
import {vectorOf} from './chart-vector.js';
import {element} from './dom.js';
import {clock, duration, moment, number} from './format.js';
import {Scale} from './scale.js';
import {smoothed} from './smoothing.js';

const kMargin = {left: 52, right: 10, top: 8, bottom: 24};
// A point counts as near the cursor within so many pixels.
const kNear = 12;
const kMostRead = 12;
// An average over fewer points would say less than they do.
const kWorthSmoothing = 20;
const kWorthTrimming = 20;

class LineChart extends HTMLElement {
  #curves = [];
  #options = {x: 'step', smoothing: 0, isLog: false};
  #zoom = null;
  #drag = null;
  #cursor = null;
  #height = kUsualHeight;
  #canvas = element('canvas', {tabindex: 0, role: 'img'});
  #readout = element('output', {class: 'readout', 'aria-live': 'polite'});
  #resize = new ResizeObserver(() => this.#draw());

  connectedCallback() {
    if (!this.#canvas.isConnected) this.append(this.#canvas, this.#readout);
    this.#describe();
    this.#resize.observe(this);
    const on = (name, act) => this.#canvas.addEventListener(name, act);
    on('pointermove', (event) => this.#move(event));
    on('pointerdown', (event) => this.#begin(event));
    on('pointerup', () => this.#end());
    on('pointerleave', () => this.#leave());
    on('dblclick', () => this.#showAll());
    on('keydown', (event) => this.#key(event));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  disconnectedCallback() {
    this.#resize.disconnect();
  }

  /** The height of the drawing, in pixels. */
  set height(height) {
    if (height === this.#height) return;
    this.#height = height;
    this.#canvas.style.height = `${height}px`;
    this.#draw();
  }

  /** [{name, color, dashed, steps, values, xs, low, high}], the last two a band around it, and {x: 'step'|'examples'|'time'|'relative'|'clock', smoothing, isLog,
   * isTrimmed}. */
  show(curves, options) {
    if (options.x !== this.#options.x) this.#zoom = null;
    this.#options = options;
    this.#curves = curves.map((curve) => {
      const isSmoothed = curve.values.length >= kWorthSmoothing && !curve.dashed;
      const smooth = (values) => isSmoothed && values ? smoothed(values, options.smoothing) : values;
      return {...curve, xs: curve.xs ?? curve.steps, smooth: smooth(curve.values), low: smooth(curve.low), high: smooth(curve.high)};
    });
    this.#describe();
    this.#draw();
  }

  #describe() {
    const parts = this.#curves.map((curve) => `${curve.name}: last ${number(curve.values.at(-1))}`);
    this.#canvas.setAttribute('aria-label', `${this.getAttribute('label') ?? 'chart'}. ${parts.join('; ')}`);
  }

  #scales(width) {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    const values = [];
    for (const curve of this.#curves) {
      for (let i = 0; i < curve.xs.length; ++i) {
        const x = curve.xs[i];
        const y = curve.smooth[i];
        if (this.#zoom && (x < this.#zoom[0] || x > this.#zoom[1])) continue;
        if (y === null || (this.#options.isLog && y <= 0)) continue;
        left = Math.min(left, x);
        right = Math.max(right, x);
        low = Math.min(low, curve.low?.[i] ?? y);
        high = Math.max(high, curve.high?.[i] ?? y);
        values.push(y);
      }
    }
    if (this.#options.isTrimmed) [low, high] = withoutOutliers(values, low, high);
    if (left > right) return null;
    if (this.#zoom) [left, right] = this.#zoom;
    if (!this.#options.isLog) {
      const room = (high - low) * 0.06;
      low -= room;
      high += room;
    }
    return {
      x: new Scale(left, right, kMargin.left, width - kMargin.right),
      y: new Scale(low, high, this.#height - kMargin.bottom, kMargin.top, this.#options.isLog),
    };
  }

  /** What is seen as a PNG, with a title above and the names of the curves below. */
  picture(title) {
    const style = getComputedStyle(this);
    const dense = devicePixelRatio || 1;
    const [width, height] = [this.#canvas.width / dense, this.#canvas.height / dense];
    const canvas = element('canvas', {width: this.#canvas.width, height: (height + 30 + 18 * this.#curves.length) * dense});
    const pen = canvas.getContext('2d');
    pen.scale(dense, dense);
    pen.fillStyle = style.getPropertyValue('--card');
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(this.#canvas, 0, 26, width, height);
    pen.fillStyle = style.getPropertyValue('--ink');
    pen.font = `600 13px ${style.fontFamily}`;
    pen.fillText(title, 12, 18);
    pen.font = `12px ${style.fontFamily}`;
    this.#curves.forEach((curve, i) => {
      const y = height + 40 + 18 * i;
      pen.fillStyle = curve.color;
      pen.fillRect(kMargin.left, y - 4, 16, curve.dashed ? 1 : 3);
      pen.fillStyle = style.getPropertyValue('--ink');
      pen.fillText(curve.name, kMargin.left + 24, y + 1);
    });
    return new Promise((done) => canvas.toBlob(done, 'image/png'));
  }

  /** What is seen as the text of an SVG file, with a title above and the names of the curves below; '' where nothing is drawn. */
  vector(title) {
    if (!this.scales) return '';
    const {x, y} = this.scales;
    const width = this.clientWidth;
    return vectorOf({title, width, height: this.#height, margin: kMargin, curves: this.#curves, x, y,
      xTicks: this.#xTicks(width).map((tick) => ({at: x.at(tick), text: this.#xTick(tick)})),
      yTicks: y.ticks(4).map((tick) => ({at: y.at(tick), text: tickText(tick)}))});
  }

  #draw() {
    const width = this.clientWidth;
    if (!width) return;
    const dense = devicePixelRatio || 1;
    this.#canvas.width = width * dense;
    this.#canvas.height = this.#height * dense;
    const pen = this.#canvas.getContext('2d');
    pen.scale(dense, dense);
    const style = getComputedStyle(this);
    const ink = {line: style.getPropertyValue('--line'), faint: style.getPropertyValue('--ink-3'),
                 accent: style.getPropertyValue('--accent')};
    pen.font = `11px ${style.fontFamily}`;
    this.scales = this.#scales(width);
    if (!this.scales) {
      pen.fillStyle = ink.faint;
      pen.textAlign = 'center';
      pen.fillText('nothing to draw', width / 2, this.#height / 2);
      return;
    }
    this.#drawAxes(pen, ink, width);
    pen.save();
    pen.beginPath();
    // A little wider, for dots at the ends.
    pen.rect(kMargin.left - 4, 0, width - kMargin.left - kMargin.right + 8, this.#height - kMargin.bottom + 4);
    pen.clip();
    for (const curve of this.#curves) this.#drawCurve(pen, curve);
    this.#drawCursor(pen, ink);
    pen.restore();
  }

  #drawAxes(pen, ink, width) {
    const {x, y} = this.scales;
    pen.strokeStyle = ink.line;
    pen.fillStyle = ink.faint;
    pen.lineWidth = 1;
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    for (const tick of y.ticks(4)) {
      const at = Math.round(y.at(tick)) + 0.5;
      pen.beginPath();
      pen.moveTo(kMargin.left, at);
      pen.lineTo(width - kMargin.right, at);
      pen.stroke();
      pen.fillText(tickText(tick), kMargin.left - 7, at);
    }
    pen.textBaseline = 'top';
    pen.textAlign = 'center';
    for (const tick of this.#xTicks(width)) pen.fillText(this.#xTick(tick), x.at(tick), this.#height - kMargin.bottom + 8);
  }

  // Those whose texts have room.
  #xTicks(width) {
    const {x} = this.scales;
    return x.ticks(Math.max(2, Math.floor(width / 80)))
      .filter((tick) => x.at(tick) >= kMargin.left - 1 && x.at(tick) <= width - kMargin.right - 12);
  }

  #xTick(value) {
    if (this.#options.x === 'relative') return duration(value);
    if (this.#options.x === 'time') return moment(value).slice(11);
    if (this.#options.x === 'clock') return clock(value);
    return tickText(value);
  }

  // From the lower end of a band to the upper one and back.
  #drawBand(pen, {xs, low, high, color}) {
    const {x, y} = this.scales;
    const least = y.isLog ? y.low : -Infinity;
    pen.globalAlpha = 0.16;
    pen.fillStyle = color;
    pen.beginPath();
    xs.forEach((one, i) => pen.lineTo(x.at(one), y.at(Math.max(least, low[i]))));
    for (let i = xs.length - 1; i >= 0; --i) pen.lineTo(x.at(xs[i]), y.at(Math.max(least, high[i])));
    pen.fill();
    pen.globalAlpha = 1;
  }

  #drawCurve(pen, curve) {
    pen.lineJoin = 'round';
    pen.strokeStyle = curve.color;
    if (curve.low) {
      this.#drawBand(pen, curve);
    } else if (curve.smooth !== curve.values) {
      pen.globalAlpha = 0.22;
      pen.lineWidth = 1;
      this.#stroke(pen, curve.xs, curve.values);
      pen.globalAlpha = 1;
    }
    pen.lineWidth = 1.6;
    pen.setLineDash(curve.dashed ? [5, 4] : []);
    this.#stroke(pen, curve.xs, curve.smooth);
    pen.setLineDash([]);
    if (curve.xs.length <= 40) this.#dots(pen, curve);
  }

  #stroke(pen, xs, ys) {
    const {x, y} = this.scales;
    pen.beginPath();
    let isDown = false;
    for (let i = 0; i < xs.length; ++i) {
      const value = ys[i];
      if (value === null || (y.isLog && value <= 0)) {
        isDown = false;
        continue;
      }
      if (isDown) pen.lineTo(x.at(xs[i]), y.at(value));
      else pen.moveTo(x.at(xs[i]), y.at(value));
      isDown = true;
    }
    pen.stroke();
  }

  #dots(pen, curve) {
    const {x, y} = this.scales;
    pen.fillStyle = curve.color;
    curve.xs.forEach((one, i) => {
      if (curve.smooth[i] === null) return;
      pen.beginPath();
      pen.arc(x.at(one), y.at(curve.smooth[i]), 2.4, 0, 7);
      pen.fill();
    });
  }

  #drawCursor(pen, ink) {
    const {x, y} = this.scales;
    if (this.#drag) {
      pen.fillStyle = ink.accent;
      pen.globalAlpha = 0.14;
      pen.fillRect(this.#drag[0], kMargin.top, this.#drag[1] - this.#drag[0], this.#height - kMargin.bottom - kMargin.top);
      pen.globalAlpha = 1;
    }
    if (this.#cursor === null) return;
    pen.strokeStyle = ink.faint;
    pen.beginPath();
    pen.moveTo(x.at(this.#cursor), kMargin.top);
    pen.lineTo(x.at(this.#cursor), this.#height - kMargin.bottom);
    pen.stroke();
    for (const {curve, i} of this.#pointsAt(this.#cursor)) {
      if (curve.smooth[i] === null) continue;
      pen.fillStyle = curve.color;
      pen.beginPath();
      pen.arc(x.at(curve.xs[i]), y.at(curve.smooth[i]), 3.4, 0, 7);
      pen.fill();
    }
  }

  #move(event) {
    const at = event.offsetX;
    if (this.#drag) this.#drag[1] = at;
    if (this.scales) this.#setCursor(this.scales.x.value(at));
  }

  #begin(event) {
    if (event.button !== 0) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#drag = [event.offsetX, event.offsetX];
  }

  #end() {
    const drag = this.#drag;
    this.#drag = null;
    if (drag && this.scales && Math.abs(drag[1] - drag[0]) > 8) {
      this.zoomTo(...[Math.min(...drag), Math.max(...drag)].map((at) => this.scales.x.value(at)));
    }
    this.#draw();
  }

  /** Shows a part of the axis. Tells 'zoom'. */
  zoomTo(from, to) {
    this.#zoom = [from, to];
    this.dispatchEvent(new CustomEvent('zoom', {detail: this.#zoom}));
    this.#draw();
  }

  #leave() {
    if (this.#drag) return;
    this.#setCursor(null);
  }

  #showAll() {
    this.#zoom = null;
    this.dispatchEvent(new CustomEvent('zoom', {detail: null}));
    this.#draw();
  }

  #key(event) {
    const first = this.#curves[0];
    if (event.key === 'Escape') this.#showAll();
    if (!first || !['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) return;
    event.preventDefault();
    const last = first.xs.length - 1;
    const now = this.#cursor === null ? last : nearest(first.xs, this.#cursor);
    const stride = event.shiftKey ? Math.max(1, Math.round(last / 20)) : 1;
    const next = {ArrowLeft: now - stride, ArrowRight: now + stride, Home: 0, End: last}[event.key];
    this.#setCursor(first.xs[Math.min(last, Math.max(0, next))]);
  }

  /** Marks the point nearest to x, where the cursor of another chart is; null: none. */
  markAt(x) {
    const cursor = x === null || !this.scales ? null : this.#nearestPoint(x);
    if (cursor === this.#cursor) return;
    this.#cursor = cursor;
    this.#readout.replaceChildren();
    this.#draw();
  }

  // The cursor stands at a point: the one nearest to x, of whichever curve. Tells 'cursor'.
  #setCursor(x) {
    this.#cursor = x === null || !this.scales ? null : this.#nearestPoint(x);
    this.dispatchEvent(new CustomEvent('cursor', {bubbles: true, detail: this.#cursor}));
    this.#draw();
    this.#readout.replaceChildren();
    if (this.#cursor === null) return;
    const points = this.#pointsAt(this.#cursor);
    const first = points.find(({curve, i}) => curve.xs[i] === this.#cursor);
    const step = first.curve.steps[first.i];
    this.#readout.append(element('b', {}, this.#stepText(step)), ...points.slice(0, kMostRead).map(({curve, i}) =>
      element('span', {color: curve.color}, element('i', {class: 'dot'}), `${curve.name} ${number(curve.values[i])}`,
        curve.steps[i] === step ? null : element('span', {class: 'aside'}, `at ${this.#stepText(curve.steps[i])}`))));
    if (points.length > kMostRead) this.#readout.append(element('span', {class: 'aside'}, `and ${points.length - kMostRead} more`));
  }

  #stepText(step) {
    return this.#options.x === 'clock' ? clock(step) : `step ${number(step)}`;
  }

  // The x of a point that is seen; null where there is none.
  #nearestPoint(x) {
    const {low, high} = this.scales.x;
    let best = null;
    for (const {xs} of this.#curves) {
      const i = nearest(xs, x);
      if (i < 0 || xs[i] < low || xs[i] > high) continue;
      if (best === null || Math.abs(xs[i] - x) < Math.abs(best - x)) best = xs[i];
    }
    return best;
  }

  // The nearest point of every curve that has one near x: {curve, i}.
  #pointsAt(x) {
    const at = this.scales.x.at(x);
    return this.#curves.map((curve) => ({curve, i: nearest(curve.xs, x)}))
      .filter(({curve, i}) => i >= 0 && Math.abs(this.scales.x.at(curve.xs[i]) - at) <= kNear);
  }
}

/** The range of values without the few that lie far outside: a twentieth at either end, and what is close to the others. */
function withoutOutliers(values, low, high) {
  if (values.length < kWorthTrimming) return [low, high];
  values.sort((a, b) => a - b);
  const [first, last] = [0.05, 0.95].map((part) => values[Math.round(part * (values.length - 1))]);
  const room = (last - first) / 2;
  return [Math.max(low, first - room), Math.min(high, last + room)];
}

function tickText(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

/** The index whose x is nearest, by halving; -1 where there is none. */
function nearest(xs, x) {
  if (xs.length === 0) return -1;
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

customElements.define('line-chart', LineChart);
