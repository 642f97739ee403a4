// <digit-pad>: a digit drawn by hand or dropped as a picture, as 28 by 28 numbers from 0 to 1. Tells 'draw'.
import {element} from './dom.js';
import {acceptPictures, drawFitted} from './dropped-picture.js';

const kSide = 28;
const kShown = 252;

class DigitPad extends HTMLElement {
  #shown = element('canvas', {width: kShown, height: kShown, role: 'img', 'aria-label': 'Draw a digit here'});
  #small = element('canvas', {width: kSide, height: kSide});
  #last = null;

  connectedCallback() {
    this.append(this.#shown, element('button', {type: 'button', class: 'quiet', onclick: () => this.clear()}, 'clear'));
    acceptPictures(this, (bitmap) => {
      this.clear();
      drawFitted(this.#shown, bitmap);
      this.#changed();
    });
    this.#shown.addEventListener('pointerdown', (event) => {
      this.#shown.setPointerCapture(event.pointerId);
      this.#last = [event.offsetX, event.offsetY];
      this.#stroke(event);
    });
    this.#shown.addEventListener('pointermove', (event) => this.#last && this.#stroke(event));
    this.#shown.addEventListener('pointerup', () => {
      this.#last = null;
      this.#changed();
    });
    this.clear();
  }

  clear() {
    const pen = this.#shown.getContext('2d');
    pen.fillStyle = '#000';
    pen.fillRect(0, 0, kShown, kShown);
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new CustomEvent('draw'));
  }

  #stroke(event) {
    const pen = this.#shown.getContext('2d');
    pen.strokeStyle = '#fff';
    pen.lineWidth = 20;
    pen.lineCap = 'round';
    pen.beginPath();
    pen.moveTo(...this.#last);
    this.#last = [event.offsetX, event.offsetY];
    pen.lineTo(...this.#last);
    pen.stroke();
  }

  /** 784 numbers, row by row. */
  get pixels() {
    const pen = this.#small.getContext('2d', {willReadFrequently: true});
    pen.imageSmoothingQuality = 'high';
    pen.drawImage(this.#shown, 0, 0, kSide, kSide);
    const {data} = pen.getImageData(0, 0, kSide, kSide);
    return Array.from({length: kSide * kSide}, (_, i) => Number((data[4 * i] / 255).toFixed(3)));
  }

  /** Draws 784 numbers: from 0 to 1, or bytes where one is above. */
  set pixels(values) {
    if (values.length !== kSide * kSide) return;
    const most = Math.max(...values) > 1 ? 255 : 1;
    const pen = this.#small.getContext('2d', {willReadFrequently: true});
    const image = pen.createImageData(kSide, kSide);
    values.forEach((value, i) => image.data.set([0, 1, 2].map(() => 255 * value / most).concat(255), 4 * i));
    pen.putImageData(image, 0, 0);
    this.#shown.getContext('2d').drawImage(this.#small, 0, 0, kShown, kShown);
    this.#changed();
  }
}

customElements.define('digit-pad', DigitPad);
