// <token-form>: asks for the token that this console needs. Tells 'token'.
import {setToken} from './api.js';
import {element} from './dom.js';

class TokenForm extends HTMLElement {
  connectedCallback() {
    const field = element('input', {type: 'password', id: 'token', autocomplete: 'off', required: true});
    this.append(element('form', {class: 'card narrow', onsubmit: (event) => {
      event.preventDefault();
      setToken(field.value);
      this.dispatchEvent(new CustomEvent('token'));
    }}, element('h1', {}, 'This console needs a token'),
      element('label', {for: 'token'}, 'Token'), field, element('button', {class: 'primary'}, 'Continue')));
    field.focus();
  }
}

customElements.define('token-form', TokenForm);
