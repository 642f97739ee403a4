// Work that is asked for often and done seldom.

/** A function that calls `act` once, `wait` milliseconds after it was first called; further calls until then are one. */
export function later(act, wait = 1000) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      act();
    }, wait);
  };
}
