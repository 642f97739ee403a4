// Texts of event files that are tables in Markdown, as tables: those of metrics, a confusion matrix among them.
import {element} from './dom.js';

/** A table of a text in Markdown, its cells shaded by their share of the row where all are counts; null for another text. */
export function tableOf(text, label) {
  const lines = text.trim().split('\n').map(cellsOf);
  if (lines.length < 3 || lines.some((cells) => cells === null || cells.length !== lines[0].length)) return null;
  if (!lines[1].every((cell) => /^:?-{3,}:?$/.test(cell))) return null;
  const [head, , ...rows] = lines;
  const isMatrix = rows.length > 1 && rows.length === head.length - 1;
  return element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label}, element('table', {class: isMatrix ? 'matrix' : null},
    element('thead', {}, element('tr', {}, head.map((cell) => element('th', {scope: 'col', class: 'number'}, cell)))),
    element('tbody', {}, rows.map((row) => element('tr', {}, element('th', {scope: 'row'}, row[0]), ...cellsOfRow(row.slice(1), isMatrix))))));
}

// The cells of a line "| a | b |"; null for another line.
function cellsOf(line) {
  const inside = /^\|(.*)\|\s*$/.exec(line)?.[1];
  return inside === undefined ? null : inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\([|\\])/g, '$1'));
}

function cellsOfRow(cells, isMatrix) {
  const sum = cells.reduce((all, cell) => all + Number(cell), 0);
  return cells.map((cell) => {
    const made = element('td', {class: 'number'}, cell);
    if (isMatrix && sum > 0) made.style.setProperty('--share', `${Math.round(60 * Number(cell) / sum)}%`);
    return made;
  });
}
