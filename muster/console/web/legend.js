// The meaning of a chart's colours.
import {element} from './dom.js';

/** A line of entries: {color, text, isDashed}. */
export function legend(...entries) {
  return element('p', {class: 'legend aside'}, entries.map(({color, text, isDashed}) => element('span', {},
    element('i', {class: isDashed ? 'swatch dashed' : 'swatch', color}), text)));
}
