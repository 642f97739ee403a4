// The answers of one or two versions to several rows, as a table.
import {bestOf} from './answer.js';
import {element} from './dom.js';
import {number} from './format.js';
import {rowText} from './try-rows.js';

const kMostLetters = 80;

/** `versions` are {name, predictions}, predictions in the order of the rows; null where a version gave none. */
export function answersTable(rows, versions, isPicture) {
  const different = rows.map((_, i) => versions.length > 1 && classOf(versions[0], i, isPicture) !== classOf(versions[1], i, isPicture));
  const count = different.filter(Boolean).length;
  return element('div', {class: 'stack answers', 'data-rows': rows.length, 'data-different': count},
    versions.length > 1 ? element('p', {class: 'aside'}, `${count} of ${rows.length} ${rows.length === 1 ? 'row has another answer' : 'rows have another answer'}`) : null,
    element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Answers'}, element('table', {},
      element('thead', {}, element('tr', {}, ['row', ...versions.map(({name}) => name)].map((text) => element('th', {scope: 'col'}, text)))),
      element('tbody', {}, rows.map((row, i) => element('tr', {class: different[i] ? 'differs' : null},
        element('td', {}, element('span', {class: 'clipped', title: rowText(row)}, `${i + 1}: ${rowText(row)}`)),
        versions.map((version) => element('td', {}, answerText(version.predictions?.[i], isPicture)))))))));
}

// Answers are compared by their class, or as they are.
function classOf(version, place, isPicture) {
  const prediction = version.predictions?.[place];
  return bestOf(prediction, isPicture)?.name ?? JSON.stringify(prediction);
}

function answerText(prediction, isPicture) {
  if (prediction === undefined) return '–';
  const best = bestOf(prediction, isPicture);
  if (best) return `${best.name} (${number(best.share)})`;
  const text = JSON.stringify(prediction);
  return text.length > kMostLetters ? `${text.slice(0, kMostLetters)}…` : text;
}
