// A histogram of an event file, as bars.
import {svg} from './dom.js';
import {number} from './format.js';

const kWidth = 320;
const kHeight = 120;

/** Its buckets as {from, to, count}, without those beyond its smallest and largest value. */
function bucketsOf({min, max, limits, counts}) {
  const buckets = [];
  limits.forEach((limit, i) => {
    if (!(counts[i] > 0)) return;
    const from = Math.max(min, i > 0 ? limits[i - 1] : min);
    buckets.push({from, to: Math.min(max, limit), count: counts[i]});
  });
  return buckets;
}

/** An SVG of the answer to media.item: the area of a bar is its part of all values. */
export function histogramOf(histogram, label) {
  const {min, max, num} = histogram;
  const buckets = bucketsOf(histogram);
  const span = max - min || 1;
  const narrowest = span / 200;
  const heightOf = (bucket) => bucket.count / Math.max(narrowest, bucket.to - bucket.from);
  const highest = Math.max(...buckets.map(heightOf), 0) || 1;
  const x = (value) => (value - min) / span * kWidth;
  return svg('svg', {viewBox: `0 0 ${kWidth} ${kHeight + 18}`, class: 'histogram', role: 'img',
                     'aria-label': `${label}: ${number(num)} values from ${number(min)} to ${number(max)}`},
    buckets.map((bucket) => {
      const height = heightOf(bucket) / highest * kHeight;
      return svg('rect', {x: x(bucket.from), y: kHeight - height, height,
                          width: Math.max(1, x(bucket.to) - x(bucket.from))},
        svg('title', {}, `${number(bucket.from)} to ${number(bucket.to)}: ${number(bucket.count)}`));
    }),
    svg('text', {x: 0, y: kHeight + 14}, number(min)),
    svg('text', {x: kWidth, y: kHeight + 14, 'text-anchor': 'end'}, number(max)));
}
