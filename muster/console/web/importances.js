// How much each parameter of a study counts, as bars.
import {element} from './dom.js';

/** The share of the metric's variance that each explains alone; null before there are trials enough to tell. */
export function importancesOf(parameters) {
  const known = parameters.filter((one) => typeof one.importance === 'number').sort((a, b) => b.importance - a.importance);
  if (known.length === 0) return null;
  return element('div', {class: 'bars named'}, known.map(({name, importance}) => element('div', {},
    element('span', {}, name), element('meter', {min: 0, max: 1, value: importance, 'aria-label': name}),
    element('span', {class: 'aside'}, `${Math.round(100 * importance)} %`))));
}
