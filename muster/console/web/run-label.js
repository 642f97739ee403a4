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

/** Its tags, as small labels. */
export function tagLabels(run) {
  return notesOf(run).tags.map((tag) => element('span', {class: 'label'}, tag));
}

/** The page of one run. */
export function addressOf(run) {
  return `/run?id=${encodeURIComponent(run.id)}`;
}
