// A model's answer, drawn as bars.
import {element} from './dom.js';

const kCifar10 = ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck'];

/** The probabilities in a prediction; null where it has none. */
export function probabilitiesOf(prediction) {
  const list = Array.isArray(prediction) ? prediction :
    Object.entries(prediction ?? {}).find(([name, value]) => /prob|scores/.test(name) && Array.isArray(value))?.[1];
  if (!Array.isArray(list) || list.length < 2 || list.length > 20 || !list.every((value) => typeof value === 'number')) return null;
  const isShare = list.every((value) => value >= 0) && Math.abs(list.reduce((sum, value) => sum + value, 0) - 1) < 0.01;
  return isShare ? list : null;
}

/** Names of the classes, where they are known: in the answer, or those of CIFAR-10. */
function namesOf(prediction, count, isPicture) {
  const named = prediction?.all_classes ?? prediction?.classes_names;
  if (Array.isArray(named) && named.length === count) return named.map(String);
  return isPicture && count === kCifar10.length ? kCifar10 : Array.from({length: count}, (_, i) => String(i));
}

/** The class with the largest probability, {name, share}; null for an answer without probabilities. */
export function bestOf(prediction, isPicture) {
  const list = probabilitiesOf(prediction);
  if (!list) return null;
  const share = Math.max(...list);
  return {name: namesOf(prediction, list.length, isPicture)[list.indexOf(share)], share};
}

/** A bar per class; null for an answer without probabilities. */
export function bars(prediction, isPicture) {
  const list = probabilitiesOf(prediction);
  if (!list) return null;
  const most = Math.max(...list);
  const names = namesOf(prediction, list.length, isPicture);
  return element('div', {class: names.some((name) => name.length > 2) ? 'bars named' : 'bars'}, list.map((value, i) =>
    element('div', {class: value === most ? 'best' : null}, element('span', {}, names[i]),
      element('meter', {min: 0, max: 1, value, 'aria-label': `class ${names[i]}`}),
      element('span', {class: 'aside'}, value.toFixed(3)))));
}

/**
 * What each field counted for: by how much the probability of the answer falls when the field is as in an empty form.
 * `without` are the predictions for these, field by field.
 */
export function contributions(prediction, names, without) {
  const list = probabilitiesOf(prediction);
  if (!list) return null;
  const best = list.indexOf(Math.max(...list));
  const parts = names.map((name, i) => ({name, part: list[best] - (probabilitiesOf(without[i])?.[best] ?? list[best])}))
    .sort((a, b) => Math.abs(b.part) - Math.abs(a.part)).slice(0, 8).filter(({part}) => Math.abs(part) >= 0.0005);
  if (parts.length === 0) return null;
  const most = Math.abs(parts[0].part);
  return element('div', {class: 'bars named contributions'}, parts.map(({name, part}) => element('div', {class: part < 0 ? 'falls' : null},
    element('span', {}, name), element('meter', {min: 0, max: 1, value: Math.abs(part) / most, 'aria-label': name}),
    element('span', {class: part < 0 ? 'aside minus' : 'aside'}, `${part < 0 ? '−' : '+'}${Math.abs(part).toFixed(3)}`))));
}
