// How pages name a run, and what people noted of it.
import {element} from './dom.js';

const kNone = {name: '', tags: [], text: '', isPinned: false, isArchived: false};

/** The notes of a run, each field there. */
export function notesOf(run) {
  return {...kNone, ...run.notes};
}

/** The name that people gave it, or else its folder's. */
export function labelOf(run) {
  return notesOf(run).name || run.id;
}

/** The words by which a run is found: its folder, its name and its tags. */
export function searchTextOf(run) {
  return `${run.id} ${labelOf(run)} ${notesOf(run).tags.join(' ')}`.toLowerCase();
}

/** Its tags, as small labels. */
export function tagLabels(run) {
  return notesOf(run).tags.map((tag) => element('span', {class: 'label'}, tag));
}

/** Whether a curve is of samples that a task took of its machine, and not of training or an evaluation. */
export function isOfMachine({evaluation}) {
  return evaluation.startsWith('machine.');
}

/** The task of such a curve: "worker:0". */
export function taskOf({evaluation}) {
  return evaluation.replace('machine.', '').replace(/_(\d+)$/, ':$1');
}

/** The page of one run. */
export function addressOf(run) {
  return `/run?id=${encodeURIComponent(run.id)}`;
}
