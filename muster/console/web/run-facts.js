// Rows of a name and a text about a run: its arguments, program, commit, environment and input files.

/** The flags of a command line: {"--train-steps": "300"}; a word without a flag has its place, "word 1". */
export function flagsOf(words) {
  const flags = new Map();
  let place = 0;
  for (let i = 0; i < words.length; ++i) {
    const word = String(words[i]);
    if (!/^-{1,2}[A-Za-z]/.test(word)) {
      flags.set(`word ${++place}`, word);
      continue;
    }
    const sign = word.indexOf('=');
    if (sign > 0) add(flags, word.slice(0, sign), word.slice(sign + 1));
    else if (i + 1 < words.length && !/^-{1,2}[A-Za-z]/.test(words[i + 1])) add(flags, word, String(words[++i]));
    else add(flags, word, 'given');
  }
  return flags;
}

// A flag that is repeated has all its values.
function add(flags, name, value) {
  flags.set(name, flags.has(name) ? `${flags.get(name)} ${value}` : value);
}

/** Groups of facts of a record, each {title, rows: Map of name and text}; groups without rows are left out. */
export function factsOf(record) {
  const text = (value) => typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
  const rows = (object) => new Map(Object.entries(object ?? {}).map(([name, value]) => [name, text(value)]));
  const own = new Map();
  for (const [name, key] of [['program', 'program'], ['folder', 'working_directory'], ['host', 'host'], ['seed', 'seed']]) {
    if (record[key] !== undefined) own.set(name, text(record[key]));
  }
  return [
    {title: 'Arguments', rows: flagsOf(record.arguments ?? [])},
    {title: 'Hyperparameters', rows: rows(record.hparams)},
    {title: 'Commit', rows: rows(record.git)},
    {title: 'Environment', rows: new Map([...own, ...rows(record.versions)])},
    {title: 'Input files', rows: new Map((record.files ?? []).map((file) => [text(file.path), `${text(file.size_bytes)} bytes`]))},
  ].filter((group) => group.rows.size > 0);
}
