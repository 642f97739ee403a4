// Events of the console, as they come. One stream for the whole page; it is opened again when it is lost.
import {openStream} from './api.js';

const kFirstPause = 1000;
const kLongestPause = 15000;

/** Calls take(name, data) for every event, until the signal is aborted; onState(true) while connected. */
export async function follow(path, query, take, signal, onState = () => {}) {
  let pause = kFirstPause;
  while (!signal.aborted) {
    try {
      const answer = await openStream(path, query, signal);
      onState(true);
      pause = kFirstPause;
      await readEvents(answer.body, take);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) throw error;
    }
    onState(false);
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(2 * pause, kLongestPause);
  }
}

async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    const events = text.split('\n\n');
    text = events.pop();
    for (const event of events) hand(event, take);
  }
}

function hand(text, take) {
  let name = '';
  let data = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (name) take(name, JSON.parse(data));
}

const kName = 'muster-live';

/**
 * Events of all pages; 'connected' and 'lost' tell of the stream itself. A browser opens few connections to one host, so
 * all tabs share one stream: the tab that holds a lock has it, and hands events on.
 */
export class LiveEvents extends EventTarget {
  #stop = new AbortController();
  #tabs = new BroadcastChannel(kName);
  #isUp = false;

  open() {
    this.#tabs.onmessage = ({data}) => this.#hear(data);
    const lead = () => follow('live', {}, (name, data) => this.#tell({name, data}), this.#stop.signal,
                              (isUp) => this.#tell({name: isUp ? 'connected' : 'lost'}));
    // Pages that came by plain HTTP from another host have no locks.
    if (!navigator.locks) return lead();
    navigator.locks.request(kName, {signal: this.#stop.signal}, lead).catch(() => {});
    this.#tabs.postMessage({name: 'hello'});
  }

  close() {
    this.#stop.abort();
    this.#tabs.close();
  }

  #tell(event) {
    if (event.name === 'connected' || event.name === 'lost') this.#isUp = event.name === 'connected';
    this.#tabs.postMessage(event);
    this.#hand(event);
  }

  #hear(event) {
    if (event.name !== 'hello') this.#hand(event);
    else if (this.#isUp) this.#tabs.postMessage({name: 'connected'});
  }

  #hand({name, data}) {
    this.dispatchEvent(new CustomEvent(name, {detail: data}));
  }
}
