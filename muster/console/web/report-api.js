// Answers of a console that are kept in a report, instead of api.js.

const kData = JSON.parse(document.getElementById('report-data').textContent);

/** The title of the report, and the version of muster that wrote it. */
export const report = {title: kData.title, version: kData.version};

/** The answer of GET /api/PATH when the report was written. */
export async function get(path, query = {}) {
  const wanted = new Set([query.run ?? []].flat());
  switch (path) {
    case 'runs': return {runs: kData.runs.map((run) => ({...run, record: {...run.record, commit: run.record.git?.commit}}))};
    case 'run': return kData.runs.find((run) => run.id === query.id);
    case 'scalars': return {curves: (kData.curves[query.tag] ?? []).filter((curve) => wanted.has(curve.run)).map((curve) => ({...curve, isWhole: true}))};
    case 'media': return {media: []};
    default: throw new Error(`a report has no ${path}`);
  }
}

export async function currentSession() {
  return {allowChanges: false};
}

export async function getBlob(path) {
  throw new Error(`a report has no ${path}`);
}

export async function post() {
  throw new Error('a report cannot be changed');
}

/** Saves bytes as a file of the reader's. */
export function save(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Saves the curves of a chart as CSV. */
export async function download(path, query, name) {
  const field = (text) => /^[=+\-@\t\r]|[",\r\n]/.test(text) ? `"${/^[=+\-@\t\r]/.test(text) ? '\'' : ''}${text.replaceAll('"', '""')}"` : text;
  const {curves} = await get('scalars', query);
  const lines = curves.flatMap((curve) => curve.steps.map((step, i) =>
    [field(curve.run), field(curve.evaluation), step, curve.times[i], curve.values[i] ?? 'nan'].join(',')));
  save(new Blob([['run,evaluation,step,wall_time,value', ...lines, ''].join('\n')], {type: 'text/csv'}), name);
}
