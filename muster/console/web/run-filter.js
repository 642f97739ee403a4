// Which runs of a table are shown: words of a name, and conditions such as accuracy>0.8 or batch_size=40.
import {searchTextOf} from './run-label.js';

const kCondition = /^([^<>=!]+)(<=|>=|!=|<|>|=)(.+)$/;

const kTests = {
  '<': (a, b) => a < b,
  '>': (a, b) => a > b,
  '<=': (a, b) => a <= b,
  '>=': (a, b) => a >= b,
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
};

function sameKind(value, text) {
  return typeof value === 'number' ? Number(text) : text;
}

/** A function that says whether a run passes. `columns` are those of the table. */
export function runFilter(text, columns) {
  const parts = text.trim().split(/\s+/).filter(Boolean).map((part) => {
    const [, name, sign, wanted] = kCondition.exec(part) ?? [];
    const column = columns.find((one) => one.label.toLowerCase() === name?.toLowerCase());
    if (!column) return (run) => searchTextOf(run).includes(part.toLowerCase());
    return (run) => {
      const value = column.value(run);
      return value !== null && value !== undefined && kTests[sign](value, sameKind(value, wanted));
    };
  });
  return (run) => parts.every((passes) => passes(run));
}

/** The columns in which not all runs are alike; the first, the name, always. */
export function differing(columns, runs) {
  return columns.filter((column, place) => place === 0 || new Set(runs.map((run) => column.value(run) ?? null)).size > 1);
}

/** The columns with what numbers differ by from those of one run behind them. */
export function comparedWith(columns, run, text) {
  return columns.map((column) => {
    const base = column.value(run);
    if (!column.isCompared || typeof base !== 'number') return column;
    return {...column, cell: (other) => {
      const value = column.value(other);
      if (other.id === run.id || typeof value !== 'number' || value === base) return column.cell(other);
      const difference = value - base;
      return `${text(value)} (${difference > 0 ? '+' : '−'}${text(Math.abs(difference))})`;
    }};
  });
}
