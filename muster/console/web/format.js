// Numbers and times as people read them.

/** 0.81753, 1.2e-7, 12 400. */
export function number(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'number') return String(value);
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3);
  if (Number.isInteger(value)) return value.toLocaleString('en').replaceAll(',', '\u202f');
  return String(Number(value.toPrecision(5)));
}

/** 1 h 04 min, 12 s. */
export function duration(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return '–';
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, '0')} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, '0')} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** 2026-03-01 10:04, of seconds since 1970. */
export function moment(seconds) {
  if (!seconds) return '–';
  const at = new Date(seconds * 1000);
  const two = (part) => String(part).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** 10:04:31, of seconds since 1970. */
export function clock(seconds) {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

/** 1.5 MB. */
export function bytes(count) {
  if (count < 1000) return `${count} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let size = count / 1000;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    ++unit;
  }
  return `${Number(size.toPrecision(3))} ${units[unit]}`;
}

/** 12 s ago, of seconds since 1970. */
export function age(seconds) {
  return seconds ? `${duration(Math.max(0, Date.now() / 1000 - seconds))} ago` : '–';
}
