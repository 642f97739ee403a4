// The handles of a chart: one to move it by, one to change its size, for a pointer and for the keyboard.
import {element} from './dom.js';
import {kUsualHeight} from './chart-layout.js';

const kStride = 40;

/**
 * A button that moves the chart of a tag. Tells 'move' from `card` with {to}, the tag of the chart at whose place it is dropped,
 * or {by}, -1 or 1, of a key.
 */
export function moveHandle(card, tag) {
  const tell = (detail) => card.dispatchEvent(new CustomEvent('move', {detail}));
  const handle = element('button', {class: 'quiet handle', title: 'Drag to move this chart; arrows move it too', 'aria-label': `Move ${tag}`}, '⠿');
  handle.addEventListener('keydown', (event) => {
    const by = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
    if (!by) return;
    event.preventDefault();
    tell({by});
  });
  dragged(handle, () => {
    card.classList.add('moving');
    return {end: ({clientX, clientY}) => {
      card.classList.remove('moving');
      const other = document.elementsFromPoint(clientX, clientY).map((one) => one.closest(card.localName)).find((one) => one && one !== card);
      if (other) tell({to: other.dataset.tag});
    }};
  });
  return handle;
}

/** A button that changes the size of a chart. Tells 'size' from `card` with {height, isWide}. `now` gives its size. */
export function sizeHandle(card, tag, now) {
  const tell = (detail) => card.dispatchEvent(new CustomEvent('size', {detail}));
  const handle = element('button', {class: 'quiet handle corner', title: 'Drag to change the size; arrows change it too, Delete takes it back',
                                    'aria-label': `Size of ${tag}`}, '◢');
  handle.addEventListener('keydown', (event) => {
    const {height, isWide} = now();
    const next = {ArrowUp: {height: height - kStride, isWide}, ArrowDown: {height: height + kStride, isWide}, ArrowLeft: {height, isWide: false},
                  ArrowRight: {height, isWide: true}, Delete: {height: kUsualHeight, isWide: false}}[event.key];
    if (!next) return;
    event.preventDefault();
    tell(next);
  });
  dragged(handle, ({clientX, clientY}) => {
    const {height, isWide} = now();
    return {move: (event) => {
      const across = event.clientX - clientX;
      // Half a chart to the right is the whole row, half a row to the left one chart.
      const wide = across > card.clientWidth / 2 || (isWide && across > -card.clientWidth / 4);
      tell({height: height + event.clientY - clientY, isWide: wide});
    }};
  });
  return handle;
}

// Calls begin(event) when the pointer goes down, and of what that gives `move` and `end`.
function dragged(handle, begin) {
  handle.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    handle.setPointerCapture(event.pointerId);
    const {move, end} = begin(event);
    const stop = new AbortController();
    if (move) handle.addEventListener('pointermove', move, {signal: stop.signal});
    for (const name of ['pointerup', 'pointercancel']) {
      handle.addEventListener(name, (last) => {
        stop.abort();
        end?.(last);
      }, {signal: stop.signal});
    }
  });
}
