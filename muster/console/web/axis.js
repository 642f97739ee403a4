// Axes that curves are drawn over: steps, examples, the time of day or the time since a run began.

/** The points of a curve on an axis; null where they cannot be told. `run` has a batch size, if it recorded one. */
export function xsOf(curve, axis, run, start) {
  if (axis === 'time') return curve.times;
  if (axis === 'relative') return curve.times.map((time) => time - start);
  if (axis === 'examples') return run.batch ? curve.steps.map((step) => step * run.batch) : null;
  return curve.steps;
}

/** When each run began: its first point in training or evaluation. */
export function startsOf(curves) {
  const starts = new Map();
  for (const {run, times} of curves) {
    if (times.length > 0) starts.set(run, Math.min(times[0], starts.get(run) ?? Infinity));
  }
  return starts;
}

/** The query for the part of an axis that is seen: steps or seconds, once per run. */
export function wantedRanges(axis, [from, to], runs, starts) {
  const own = (run) => {
    if (axis === 'relative') return [from + (starts.get(run.id) ?? 0), to + (starts.get(run.id) ?? 0)];
    if (axis === 'examples') return [from / (run.batch ?? 1), to / (run.batch ?? 1)];
    return [from, to];
  };
  const ranges = runs.map(own);
  return {over: axis === 'time' || axis === 'relative' ? 'time' : 'step',
          from: ranges.map((range) => range[0]), to: ranges.map((range) => range[1])};
}

/** How many examples a step of a run takes, as its record has it; null where it does not say. */
export function batchOf(run) {
  const named = run.record?.hparams ?? {};
  const value = Number(named.train_batch_size ?? named.batch_size ?? NaN);
  return Number.isFinite(value) && value > 0 ? value : null;
}
