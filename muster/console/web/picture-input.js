// <picture-input>: a picture of the reader's, as numbers: bytes from 0 to 255, or from 0 to 1.
import {element} from './dom.js';

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
  }

  // The middle of it, as large as fits.
  async #take(file) {
    if (!file) return;
    try {
      const bitmap = await createImageBitmap(file);
      const {width, height} = this.#sides;
      const scale = Math.max(width / bitmap.width, height / bitmap.height);
      const pen = this.#canvas.getContext('2d');
      pen.imageSmoothingQuality = 'high';
      pen.drawImage(bitmap, (width - scale * bitmap.width) / 2, (height - scale * bitmap.height) / 2,
                    scale * bitmap.width, scale * bitmap.height);
      bitmap.close();
      this.#note.textContent = '';
      this.dataset.isReady = 'yes';
    } catch {
      this.#note.textContent = `${file.name} is no picture that this browser can read.`;
    }
  }

  /** Red, green and blue of every pixel, row by row. */
  get pixels() {
    const {width, height, isBytes} = this.#sides;
    const {data} = this.#canvas.getContext('2d').getImageData(0, 0, width, height);
    const of = (byte) => isBytes ? byte : Number((byte / 255).toFixed(4));
    return Array.from({length: 3 * width * height}, (_, i) => of(data[4 * Math.floor(i / 3) + i % 3]));
  }
}

customElements.define('picture-input', PictureInput);
