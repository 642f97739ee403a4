// Curves of runs that are alike in something, as one: their mean, and a band from the smallest to the largest.

const kMostPlaces = 400;

/** The value of a curve at x between its points; null outside of it. */
function valueAt(xs, values, x) {
  let [low, high] = [0, xs.length - 1];
  if (high < 0 || x < xs[0] || x > xs[high]) return null;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  if (xs[low] === x || values[high] === null) return values[low];
  if (values[low] === null || xs[high] === x) return values[high];
  return values[low] + (values[high] - values[low]) * (x - xs[low]) / (xs[high] - xs[low]);
}

/** The places at which curves are averaged: their own, or so many from the first to the last. */
function placesOf(curves) {
  const all = [...new Set(curves.flatMap((curve) => curve.xs))].sort((a, b) => a - b);
  if (all.length <= kMostPlaces) return all;
  const [first, last] = [all[0], all.at(-1)];
  return Array.from({length: kMostPlaces}, (_, i) => first + (last - first) * i / (kMostPlaces - 1));
}

/** One curve of several: {xs, steps, values, low, high}. */
function averaged(curves) {
  const mean = {xs: [], steps: [], values: [], low: [], high: []};
  for (const x of placesOf(curves)) {
    const values = curves.map((curve) => valueAt(curve.xs, curve.values, x)).filter((value) => value !== null);
    if (values.length === 0) continue;
    const steps = curves.map((curve) => valueAt(curve.xs, curve.steps, x)).filter((step) => step !== null);
    const sum = (all) => all.reduce((a, b) => a + b, 0);
    mean.xs.push(x);
    mean.steps.push(Math.round(sum(steps) / steps.length));
    mean.values.push(sum(values) / values.length);
    mean.low.push(Math.min(...values));
    mean.high.push(Math.max(...values));
  }
  return mean;
}

/**
 * Curves, each with `group`, `evaluation`, `dashed`, `groupColor` and points, as one for each group and evaluation. Its name
 * has the number of curves in it.
 */
export function groupedCurves(curves) {
  const groups = new Map();
  for (const curve of curves) {
    const key = `${curve.evaluation}\n${curve.group}`;
    groups.set(key, [...(groups.get(key) ?? []), curve]);
  }
  return [...groups.values()].map((members) => {
    const [{group, evaluation, dashed, groupColor}] = members;
    const count = `${members.length} ${members.length === 1 ? 'run' : 'runs'}`;
    return {...averaged(members), name: `${group}${evaluation ? ` ${evaluation}` : ''}, ${count}`, color: groupColor, dashed};
  });
}
