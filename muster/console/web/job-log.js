// <job-log>: the lines of a job as they come, of all tasks or of one.
import {element} from './dom.js';
import {clock} from './format.js';
import {follow} from './live.js';

const kMostLines = 5000;

class JobLog extends HTMLElement {
  #name = '';
  #stop = null;
  #tasks = new Set();
  #task = element('select', {'aria-label': 'Task', onchange: () => this.#filter()}, element('option', {value: ''}, 'all tasks'));
  #severity = element('select', {'aria-label': 'Severity', onchange: () => this.#filter()},
    ['all lines', 'warnings and errors', 'errors'].map((text, i) => element('option', {value: i}, text)));
  #search = element('input', {type: 'search', placeholder: 'Search lines', 'aria-label': 'Search lines',
                              oninput: () => this.#filter()});
  #note = element('p', {class: 'note', role: 'status'});
  #lines = element('div', {class: 'log', role: 'log', tabindex: 0, 'aria-label': 'Log'});

  connectedCallback() {
    this.append(element('div', {class: 'toolbar'}, this.#task, this.#severity, this.#search), this.#note, this.#lines);
  }

  disconnectedCallback() {
    this.#stop?.abort();
  }

  /** The name of the job. */
  set job(name) {
    if (name === this.#name) return;
    this.#name = name;
    this.#stop?.abort();
    this.#stop = new AbortController();
    this.#lines.replaceChildren();
    const {signal} = this.#stop;
    follow(`jobs/${encodeURIComponent(name)}/log`, {}, (event, data) => {
      if (event === 'lines') this.#add(data);
      if (event === 'end') this.#stop.abort();
    }, signal, (isUp) => {
      // A stream that is opened again begins with the last lines.
      if (isUp) this.#lines.replaceChildren();
    }).catch((error) => this.#lines.append(element('p', {class: 'note'}, error.message)));
  }

  #add(lines) {
    const isAtEnd = this.#lines.scrollHeight - this.#lines.scrollTop - this.#lines.clientHeight < 40;
    for (const [severity, time, task, message] of lines) {
      if (!this.#tasks.has(task)) {
        this.#tasks.add(task);
        this.#task.append(element('option', {value: task}, task));
      }
      const line = element('div', {class: `line ${severity.toLowerCase()}`, 'data-task': task, 'data-severity': severity},
        element('time', {}, clock(time)),
        element('span', {class: 'task'}, task.replace('-replica-', ' ')), element('span', {class: 'message'}, message));
      line.hidden = !this.#isShown(line);
      this.#lines.append(line);
    }
    while (this.#lines.childElementCount > kMostLines) this.#lines.firstElementChild.remove();
    if (isAtEnd) this.#lines.scrollTop = this.#lines.scrollHeight;
    this.#tellOfNone();
  }

  #isShown(line) {
    const {task, severity} = line.dataset;
    const least = Number(this.#severity.value);
    const rank = {WARNING: 1, ERROR: 2}[severity] ?? 0;
    return (!this.#task.value || task === this.#task.value) && rank >= least &&
      line.textContent.toLowerCase().includes(this.#search.value.toLowerCase());
  }

  #filter() {
    for (const line of this.#lines.children) line.hidden = !this.#isShown(line);
    this.#tellOfNone();
  }

  #tellOfNone() {
    const lines = [...this.#lines.children];
    this.#note.textContent = lines.length > 0 && lines.every((line) => line.hidden) ? 'No line is of this task and severity and has these words.' : '';
  }
}

customElements.define('job-log', JobLog);
