// Colours of runs. They follow the names of runs, so that a run keeps its colour whatever other runs there are.

// Readable on light and dark: at least 0.09 from each other in OKLab, where 0.02 can just be seen.
const kColors = ['#2f6fde', '#e07b39', '#2a9d6f', '#b554c9', '#d1495b', '#0f9fb5', '#7e5a00', '#007896', '#c68aae', '#845460',
                 '#007212', '#ea6cd8', '#b49c30', '#1e9cfc', '#787e78', '#7242c6', '#7884c0', '#b41e66', '#ae8af6', '#ae3612',
                 '#72ae00', '#7e8412', '#8466f0', '#90a296', '#fc6684', '#a86690', '#b46600', '#5a5a96', '#009600', '#d8489c',
                 '#9c309c', '#486654'];
// Coprime to the number of colours: every place is tried.
const kStride = 7;
const kMostKept = 500;

/** FNV-1a over the letters of a name, mixed so that names that end alike lie apart. */
function hashOf(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return (hash ^ (hash >>> 15)) >>> 0;
}

const ownPlace = (name) => hashOf(name) % kColors.length;

function readKept(key) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? {};
  } catch {
    return {};
  }
}

export class RunColors {
  // Where this browser keeps them.
  #key;
  // By name: a colour that the person has chosen.
  #chosen;
  // By name: a place in kColors other than the name's own, which another run had when both were drawn.
  #moved;
  // Names that are drawn, from their first time on, and their places.
  #drawn = new Map();

  constructor(key) {
    this.#key = key;
    const kept = readKept(key);
    this.#chosen = new Map(kept.chosen);
    this.#moved = new Map(kept.moved);
  }

  of(name) {
    return this.#chosen.get(name) ?? kColors[this.#placeOf(name)];
  }

  /** Tells runs apart that are drawn together, as far as there are colours: who was drawn before keeps its own. */
  tellApart(names) {
    const before = names.filter((name) => this.#drawn.has(name));
    const others = names.filter((name) => !this.#drawn.has(name)).sort();
    const taken = new Set();
    this.#drawn.clear();
    let isChanged = false;
    for (const name of [...before, ...others]) {
      if (this.#chosen.has(name)) continue;
      const wish = this.#placeOf(name);
      const place = freePlace(wish, taken);
      if (place !== wish) {
        this.#moved.set(name, place);
        isChanged = true;
      }
      taken.add(place);
      this.#drawn.set(name, place);
    }
    if (isChanged) this.#keep();
  }

  /** A colour of the person's, "#rrggbb"; null: that of the name again. */
  choose(name, color) {
    if (color === null) this.#chosen.delete(name);
    else this.#chosen.set(name, color);
    this.#keep();
  }

  #placeOf(name) {
    return this.#moved.get(name) ?? ownPlace(name);
  }

  #keep() {
    const newest = (map) => [...map].slice(-kMostKept);
    try {
      localStorage.setItem(this.#key, JSON.stringify({chosen: newest(this.#chosen), moved: newest(this.#moved)}));
    } catch {
      // A browser that keeps nothing: the colours are those of this page.
    }
  }
}

/** The wish, or the next that is free behind it; the wish where none is. */
function freePlace(wish, taken) {
  for (let i = 0; i < kColors.length; ++i) {
    const place = (wish + i * kStride) % kColors.length;
    if (!taken.has(place)) return place;
  }
  return wish;
}
