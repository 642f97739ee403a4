// From values to pixels and back, and where the ticks of an axis stand.

/** A linear or logarithmic scale from [low, high] to [begin, end]. */
export class Scale {
  constructor(low, high, begin, end, isLog = false) {
    this.isLog = isLog && low > 0;
    if (low === high) {
      const room = Math.abs(low) * 0.05 || 0.5;
      low -= this.isLog ? 0 : room;
      high += room;
    }
    Object.assign(this, {low, high, begin, end});
    this.from = this.#raw(low);
    this.per = (end - begin) / (this.#raw(high) - this.from || 1);
  }

  #raw(value) {
    return this.isLog ? Math.log10(value) : value;
  }

  at(value) {
    return this.begin + (this.#raw(value) - this.from) * this.per;
  }

  value(pixel) {
    const raw = this.from + (pixel - this.begin) / this.per;
    return this.isLog ? 10 ** raw : raw;
  }

  /** About `count` round values. */
  ticks(count) {
    return this.isLog ? this.#logTicks(count) : linearTicks(this.low, this.high, count);
  }

  #logTicks(count) {
    const first = Math.ceil(Math.log10(this.low) - 1e-9);
    const last = Math.floor(Math.log10(this.high) + 1e-9);
    if (last - first < 1) return linearTicks(this.low, this.high, count);
    const stride = Math.max(1, Math.round((last - first) / count));
    const ticks = [];
    for (let power = first; power <= last; power += stride) ticks.push(10 ** power);
    return ticks;
  }
}

function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}
