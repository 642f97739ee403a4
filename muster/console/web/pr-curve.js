// A precision-recall curve.
import {svg} from './dom.js';
import {number} from './format.js';

const [kLeft, kSide] = [30, 190];

/** An SVG of {precision, recall}, each by threshold. */
export function prCurveOf({precision, recall}, label) {
  const x = (value) => kLeft + value * kSide;
  const y = (value) => 8 + (1 - value) * kSide;
  const points = recall.map((value, i) => [value, precision[i]]).filter(([one, other]) => one !== null && other !== null);
  const best = points.map(([one, other]) => one + other > 0 ? 2 * one * other / (one + other) : 0);
  const [r, p] = points[best.indexOf(Math.max(...best))] ?? [0, 0];
  const ticks = [0, 0.5, 1];
  return svg('svg', {viewBox: `0 0 ${kLeft + kSide + 12} ${kSide + 44}`, class: 'pr-curve', role: 'img',
                     'aria-label': `${label}: precision over recall; the best F1 has precision ${number(p)} and recall ${number(r)}`},
    ticks.map((tick) => svg('path', {d: `M${x(0)},${y(tick)}H${x(1)}M${x(tick)},${y(0)}V${y(1)}`})),
    ticks.map((tick) => svg('text', {x: kLeft - 5, y: y(tick) + 4, 'text-anchor': 'end'}, String(tick))),
    ticks.map((tick) => svg('text', {x: x(tick), y: y(0) + 14, 'text-anchor': 'middle'}, String(tick))),
    svg('text', {x: x(0.5), y: y(0) + 30, 'text-anchor': 'middle'}, 'recall, upwards: precision'),
    svg('polyline', {points: points.map(([one, other]) => `${x(one).toFixed(1)},${y(other).toFixed(1)}`).join(' ')}),
    svg('circle', {cx: x(r), cy: y(p), r: 4}, svg('title', {}, `precision ${number(p)}, recall ${number(r)}`)));
}
