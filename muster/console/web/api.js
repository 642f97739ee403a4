// Requests of pages to the console.

const kTokenKey = 'muster-token';
let session = null;

/** Says what went wrong, in the console's own words. */
export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function setToken(token) {
  sessionStorage.setItem(kTokenKey, token);
  session = null;
}

function headers(more = {}) {
  const token = sessionStorage.getItem(kTokenKey);
  return token ? {...more, Authorization: `Bearer ${token}`} : more;
}

async function checked(answer) {
  if (answer.ok) return answer;
  let text = answer.statusText;
  try {
    text = (await answer.json()).error ?? text;
  } catch {
    // No JSON: the status says what there is to say.
  }
  throw new ApiError(answer.status, text);
}

/** The JSON of GET /api/PATH with a query: {run: ['a', 'b'], tag: 'loss'}. */
export async function get(path, query = {}, signal = undefined) {
  const answer = await fetch(address(path, query), {headers: headers(), signal});
  return (await checked(answer)).json();
}

export function address(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) parameters.append(name, one);
  }
  const text = parameters.toString();
  return `/api/${path}${text ? `?${text}` : ''}`;
}

/** The bytes of GET /api/PATH. */
export async function getBlob(path, query = {}, signal = undefined) {
  return (await checked(await fetch(address(path, query), {headers: headers(), signal}))).blob();
}

/** Saves bytes as a file of the reader's. */
export function save(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Saves what GET /api/PATH gives as a file. */
export async function download(path, query, name) {
  save(await getBlob(path, query), name);
}

/** What this console is: {allowChanges, pageSecret, version}. */
export async function currentSession() {
  session ??= await get('session');
  return session;
}

/** The JSON of POST /api/PATH. */
export async function post(path, body = {}) {
  const {pageSecret} = await currentSession();
  const answer = await fetch(`/api/${path}`, {
    method: 'POST',
    headers: headers({'Content-Type': 'application/json', 'X-Muster-Page': pageSecret}),
    body: JSON.stringify(body),
  });
  return (await checked(answer)).json();
}

/** A stream of server-sent events: fetch, because EventSource sends no token. */
export function openStream(path, query, signal) {
  return fetch(address(path, query), {headers: headers(), signal}).then(checked);
}
