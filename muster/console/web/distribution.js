// How the values of a histogram change from step to step, as bands around their median.
import {svg} from './dom.js';
import {number} from './format.js';

const [kWidth, kHeight] = [320, 120];

/** An SVG of the answer to media.bands: {shares, steps, bands}, of a tag. */
export function distributionOf({shares, steps, bands}, label) {
  const values = bands.flat().filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [steps[0], steps.at(-1)];
  const x = (step) => (step - first) / (last - first || 1) * kWidth;
  const y = (value) => kHeight - (value - low) / (high - low || 1) * kHeight;
  const points = (place) => steps.map((step, i) => `${x(step).toFixed(1)},${y(bands[i][place] ?? low).toFixed(1)}`);
  const middle = (shares.length - 1) / 2;
  // From the widest to the narrowest.
  const areas = Array.from({length: middle}, (_, i) => svg('polygon', {
    points: [...points(i), ...points(shares.length - 1 - i).reverse()].join(' ')}));
  const ends = bands.at(-1);
  return svg('svg', {viewBox: `0 0 ${kWidth} ${kHeight + 18}`, class: 'distribution', role: 'img',
                     'aria-label': `${label} by step: from ${number(ends[0])} to ${number(ends.at(-1))} around ${number(ends[middle])} at step ${number(last)}`},
    areas, svg('polyline', {points: points(middle).join(' ')}),
    svg('text', {x: 0, y: kHeight + 14}, `step ${number(first)}`),
    svg('text', {x: kWidth, y: kHeight + 14, 'text-anchor': 'end'}, number(last)),
    svg('text', {x: 2, y: 10}, number(high)), svg('text', {x: 2, y: kHeight - 3}, number(low)));
}
