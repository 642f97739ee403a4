// Pictures that are dropped on an element, and how they are drawn.

/** Draws the middle of a picture, as large as fits. */
export function drawFitted(canvas, bitmap) {
  const {width, height} = canvas;
  const scale = Math.max(width / bitmap.width, height / bitmap.height);
  const pen = canvas.getContext('2d');
  pen.imageSmoothingQuality = 'high';
  pen.drawImage(bitmap, (width - scale * bitmap.width) / 2, (height - scale * bitmap.height) / 2, scale * bitmap.width, scale * bitmap.height);
}

/** Calls take(bitmap) for a picture that is dropped on the target, and onProblem(message) for another file. */
export function acceptPictures(target, take, onProblem = () => {}) {
  target.addEventListener('dragover', (event) => {
    event.preventDefault();
    target.classList.add('dropping');
  });
  target.addEventListener('dragleave', () => target.classList.remove('dropping'));
  target.addEventListener('drop', async (event) => {
    event.preventDefault();
    target.classList.remove('dropping');
    const file = event.dataTransfer.files[0];
    if (!file) return;
    try {
      const bitmap = await createImageBitmap(file);
      take(bitmap);
      bitmap.close();
    } catch {
      onProblem(`${file.name} is no picture that this browser can read.`);
    }
  });
}
