// How the charts of a page are laid out: which are pinned, in which order they are, and how large each is.

export const kUsualHeight = 210;
const [kLeastHeight, kMostHeight] = [120, 900];

/** The layout of charts by the tags that they show. It reads and writes the fields `pin`, `order` and `size` of a page's state. */
export class ChartLayout {
  #pinned = [];
  // The first of the charts that are not pinned; all others follow in their usual order.
  #order = [];
  #sizes = new Map();

  constructor({pin = [], order = [], size = []}) {
    this.#pinned = [...new Set(pin)];
    this.#order = [...new Set(order)];
    for (const text of size) {
      const [, height, isWide, tag] = /^(\d+)(w?),(.*)$/s.exec(text) ?? [];
      if (tag !== undefined) this.setSize(tag, {height: Number(height), isWide: isWide === 'w'});
    }
  }

  get state() {
    return {pin: this.#pinned, order: this.#order, size: [...this.#sizes].map(([tag, {height, isWide}]) => `${height}${isWide ? 'w' : ''},${tag}`)};
  }

  /** The tags, given in their usual order, as they are shown: those that are pinned first. */
  arranged(tags) {
    const known = new Set(tags);
    return [...new Set([...this.#pinned, ...this.#order, ...tags])].filter((tag) => known.has(tag));
  }

  isPinned(tag) {
    return this.#pinned.includes(tag);
  }

  setPinned(tag, isPinned) {
    this.#pinned = this.#pinned.filter((one) => one !== tag);
    if (isPinned) this.#pinned.push(tag);
  }

  /** Moves a tag to the place of another one, which goes back or forth by one. Among pinned charts it is pinned too. */
  move(tag, other, tags) {
    if (tag === other) return;
    const now = this.arranged(tags);
    const isForward = now.indexOf(tag) < now.indexOf(other);
    const next = now.filter((one) => one !== tag);
    next.splice(next.indexOf(other) + (isForward ? 1 : 0), 0, tag);
    const pinned = new Set(this.#pinned);
    if (pinned.has(other)) pinned.add(tag);
    else pinned.delete(tag);
    this.#pinned = next.filter((one) => pinned.has(one));
    const free = next.filter((one) => !pinned.has(one));
    // As few as say it all.
    const usual = tags.filter((one) => !pinned.has(one));
    let count = free.length;
    while (count > 0 && isAlike(free, [...free.slice(0, count - 1), ...without(usual, free.slice(0, count - 1))])) --count;
    this.#order = free.slice(0, count);
  }

  sizeOf(tag) {
    return this.#sizes.get(tag) ?? {height: kUsualHeight, isWide: false};
  }

  setSize(tag, {height, isWide}) {
    const size = {height: Math.round(Math.min(kMostHeight, Math.max(kLeastHeight, height))), isWide};
    if (size.height === kUsualHeight && !isWide) this.#sizes.delete(tag);
    else this.#sizes.set(tag, size);
  }
}

const isAlike = (a, b) => a.length === b.length && a.every((one, i) => one === b[i]);
const without = (list, others) => list.filter((one) => !others.includes(one));
