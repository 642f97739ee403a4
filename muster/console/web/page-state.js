// The state of a page, kept in its address, so that the address can be shared.

/** The query of the address: {run: ['a', 'b'], x: ['time']}. */
export function readState() {
  const state = {};
  for (const [name, value] of new URLSearchParams(location.search)) (state[name] ??= []).push(value);
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
  const text = query.toString();
  history.replaceState(null, '', location.pathname + (text ? `?${text}` : ''));
}
