// One colour per run, the same wherever it is shown, readable on light and dark.
const kColors = ['#2f6fde', '#e07b39', '#2a9d6f', '#b554c9', '#d1495b', '#0f9fb5', '#a98307', '#6c63d9',
                 '#5a8f29', '#c2568d', '#7a8b99', '#3d8bcd'];

/** By the place of the run among all, so that neighbours differ. */
export function colorOf(place) {
  return kColors[place % kColors.length];
}
