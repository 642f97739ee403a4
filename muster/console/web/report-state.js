// The state of a page of a report: kept behind the # of its address, as files have no query.

/** The query of the address: {run: ['a', 'b'], x: ['time']}. */
export function readState() {
  const state = {};
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) (state[name] ??= []).push(value);
  return state;
}

/** Replaces it; empty values are left out. */
export function writeState(state) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    for (const one of [value].flat()) {
      if (one !== '' && one !== null && one !== undefined && one !== false) query.append(name, one);
    }
  }
  history.replaceState(null, '', `#${query}`);
}
