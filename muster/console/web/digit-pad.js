// <digit-pad>: a digit drawn by hand, as 28 by 28 numbers from 0 to 1. Tells 'draw'.
import {element} from './dom.js';

const kSide = 28;
const kShown = 252;

class DigitPad extends HTMLElement {
  #shown = element('canvas', {width: kShown, height: kShown, role: 'img', 'aria-label': 'Draw a digit here'});
  #small = element('canvas', {width: kSide, height: kSide});
  #last = null;

  connectedCallback() {
    this.append(this.#shown, element('button', {class: 'quiet', onclick: () => this.clear()}, 'clear'));
    this.#shown.addEventListener('pointerdown', (event) => {
      this.#shown.setPointerCapture(event.pointerId);
      this.#last = [event.offsetX, event.offsetY];
      this.#stroke(event);
    });
    this.#shown.addEventListener('pointermove', (event) => this.#last && this.#stroke(event));
    this.#shown.addEventListener('pointerup', () => {
      this.#last = null;
      this.dispatchEvent(new CustomEvent('draw'));
    });
    this.clear();
  }

  clear() {
    const pen = this.#shown.getContext('2d');
    pen.fillStyle = '#000';
    pen.fillRect(0, 0, kShown, kShown);
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
}

customElements.define('digit-pad', DigitPad);
