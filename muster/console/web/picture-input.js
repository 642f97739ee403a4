// <picture-input>: a picture of the reader's, chosen or dropped, as numbers: bytes from 0 to 255, or from 0 to 1.
import {element} from './dom.js';
import {acceptPictures, drawFitted} from './dropped-picture.js';

class PictureInput extends HTMLElement {
  #sides = {width: 32, height: 32, isBytes: true};
  #canvas = element('canvas', {role: 'img', 'aria-label': 'What the model gets'});
  #note = element('p', {class: 'note', role: 'status'});

  /** {width, height, isBytes} and the id of the field, once. */
  set picture({sides, id}) {
    this.#sides = sides;
    this.#canvas.width = sides.width;
    this.#canvas.height = sides.height;
    this.append(element('input', {type: 'file', id, accept: 'image/*', onchange: (event) => this.#take(event.target.files[0])}),
      this.#canvas, this.#note);
    acceptPictures(this, (bitmap) => this.#show(bitmap), (message) => { this.#note.textContent = message; });
  }

  async #take(file) {
    if (!file) return;
    try {
      const bitmap = await createImageBitmap(file);
      this.#show(bitmap);
      bitmap.close();
    } catch {
      this.#note.textContent = `${file.name} is no picture that this browser can read.`;
    }
  }

  #show(bitmap) {
    drawFitted(this.#canvas, bitmap);
    this.#note.textContent = '';
    this.dataset.isReady = 'yes';
  }

  /** Red, green and blue of every pixel, row by row. */
  get pixels() {
    const {width, height, isBytes} = this.#sides;
    const {data} = this.#canvas.getContext('2d').getImageData(0, 0, width, height);
    const of = (byte) => isBytes ? byte : Number((byte / 255).toFixed(4));
    return Array.from({length: 3 * width * height}, (_, i) => of(data[4 * Math.floor(i / 3) + i % 3]));
  }

  /** Draws as many numbers. */
  set pixels(values) {
    const {width, height, isBytes} = this.#sides;
    if (values.length !== 3 * width * height) return;
    const pen = this.#canvas.getContext('2d');
    const image = pen.createImageData(width, height);
    for (let i = 0; i < width * height; ++i) {
      const color = values.slice(3 * i, 3 * i + 3).map((value) => isBytes ? value : 255 * value);
      image.data.set([...color, 255], 4 * i);
    }
    pen.putImageData(image, 0, 0);
    this.dataset.isReady = 'yes';
  }
}

customElements.define('picture-input', PictureInput);
