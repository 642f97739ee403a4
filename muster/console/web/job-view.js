// <job-view>: one job: its state, how far it has come, what can be done with it, its log and its definition.
import {currentSession, get, post} from './api.js';
import {element} from './dom.js';
import {duration, moment, number} from './format.js';
import './job-again.js';
import './job-log.js';

class JobView extends HTMLElement {
  #name = '';
  #head = element('div', {class: 'card job-head'});
  #note = element('p', {class: 'note', role: 'status'});
  #again = element('job-again', {hidden: true, onagain: ({detail}) => this.#submitAgain(detail)});
  #tellEnd = element('input', {type: 'checkbox', onchange: () => this.#askToTell()});
  #isFinal = true;
  #links = element('span');
  #log = element('job-log');
  #definition = element('pre', {tabindex: 0});

  connectedCallback() {
    this.append(this.#head, this.#note, element('section', {class: 'card', hidden: true}, element('h2', {}, 'Run again'), this.#again), element('section', {class: 'card'}, element('h2', {}, 'Log'), this.#log),
      element('details', {class: 'card'}, element('summary', {}, 'Definition'), this.#definition));
    this.#log.job = this.#name;
    this.refresh();
  }

  set name(name) {
    this.#name = name;
  }

  async refresh() {
    try {
      const [job, session] = await Promise.all([get(`jobs/${encodeURIComponent(this.#name)}`), currentSession()]);
      this.#show(job, session.allowChanges);
      await this.#showLinks();
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }

  // The run or the study that it trains.
  async #showLinks() {
    const {run, study} = await get('links', {job: this.#name});
    if (run) this.#links.replaceChildren(element('a', {href: `/run?id=${encodeURIComponent(run)}`}, `Run ${run}`));
    if (study) this.#links.replaceChildren(element('a', {href: `/studies?study=${encodeURIComponent(study)}`}, `Study ${study}`));
  }

  async #submitAgain(changes) {
    try {
      const job = await post(`jobs/${encodeURIComponent(this.#name)}/resubmit`, changes);
      this.dispatchEvent(new CustomEvent('open', {detail: job.name}));
    } catch (error) {
      this.#note.textContent = error.message;
    }
  }

  // A notification of the desktop, while this page is open.
  async #askToTell() {
    if (!this.#tellEnd.checked || await Notification.requestPermission() === 'granted') return;
    this.#tellEnd.checked = false;
    this.#note.textContent = 'This browser allows no notifications of this page.';
  }

  #tell(job) {
    if (job.isFinal && !this.#isFinal && this.#tellEnd.checked) new Notification(`${job.name} ${job.state.toLowerCase()}`, {body: job.error});
    this.#isFinal = job.isFinal;
  }

  // A job that waits: the higher number goes first.
  #priorityOf(job) {
    return element('label', {class: 'control'}, element('span', {}, 'Priority'), element('input', {
      type: 'number', min: 0, max: 1000, value: job.priority, onchange: async ({target}) => {
        try {
          await post(`jobs/${encodeURIComponent(this.#name)}/priority`, {priority: Number(target.value)});
          this.#note.textContent = '';
        } catch (error) {
          this.#note.textContent = error.message;
        }
      }}));
  }

  #show(job, allowChanges) {
    this.#tell(job);
    const facts = [
      ['created', moment(job.created)],
      ['took', job.started ? duration((job.ended ?? Date.now() / 1000) - job.started) : '–'],
      ['runs on', job.backEnd === 'local' ? 'this host' : job.backEnd],
      ...(job.progress ? [['step', job.progress.maxSteps ? `${number(job.progress.step)} of ${number(job.progress.maxSteps)}` :
        number(job.progress.step)], ['loss', number(job.progress.loss)], ['steps/s', number(job.progress.stepsPerSecond)]] : []),
      ...(job.progress?.secondsLeft && !job.isFinal ? [['left', duration(job.progress.secondsLeft)]] : []),
    ];
    const share = job.progress?.maxSteps ? job.progress.step / job.progress.maxSteps : null;
    this.#head.replaceChildren(
      element('div', {class: 'head-line'},
        element('h1', {}, job.name), element('span', {class: `pill ${job.state.toLowerCase()}`}, job.state.toLowerCase()),
        element('span', {class: 'fill'}), this.#links,
        allowChanges && job.state === 'QUEUED' && job.backEnd === 'local' ? this.#priorityOf(job) : null,
        !job.isFinal && 'Notification' in window ? element('label', {class: 'control'}, this.#tellEnd, element('span', {}, 'Tell me when it ends')) : null,
        allowChanges && !job.isFinal ? this.#button('Cancel', 'danger', 'cancel', `Cancel ${job.name}? It ends after a last checkpoint.`) : null,
        allowChanges && job.canResubmit ? this.#button('Run again', '', 'resubmit') : null,
        allowChanges && job.canResubmit && job.kind === 'training' ? element('button', {'data-action': 'change', onclick: () => this.#open(job)}, 'Change and run') : null),
      share === null ? '' : element('progress', {max: 1, value: Math.min(1, share), 'aria-label': 'Progress'}),
      element('dl', {class: 'facts'}, facts.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value)))),
      job.error ? element('p', {class: 'problem'}, job.error) : '');
    this.#definition.textContent = JSON.stringify(job.job, null, 1);
    this.dataset.state = job.state;
  }

  #open(job) {
    this.#again.show(job.job);
    this.#again.hidden = this.#again.parentElement.hidden = false;
    this.#again.querySelector('textarea').focus();
  }

  #button(label, kind, action, question = '') {
    return element('button', {class: kind, 'data-action': action, onclick: async (event) => {
      if (question && !confirm(question)) return;
      event.target.disabled = true;
      try {
        const job = await post(`jobs/${encodeURIComponent(this.#name)}/${action}`);
        if (action === 'resubmit') this.dispatchEvent(new CustomEvent('open', {detail: job.name}));
        else this.refresh();
      } catch (error) {
        this.#note.textContent = error.message;
        event.target.disabled = false;
      }
    }}, label);
  }
}

customElements.define('job-view', JobView);
