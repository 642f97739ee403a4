// A field of the form of a signature: one input, as text, a list of known words, a drawing or a picture.
import {element} from './dom.js';
import './digit-pad.js';
import './picture-input.js';
import {exampleOf, isDigit, pictureSides, shaped} from './signature.js';

// As TensorFlow Serving's JSON has bytes.
const kBytes = /^\{"b64":\s*"[A-Za-z0-9+/=]*"\}$/;

/**
 * The field of an input: {element, read, write}. `read` gives its value for a request, and throws where it is none; `write` fills
 * it with the value of an example. `words` are those that the model knows; null: none are known.
 */
export function fieldOf(input, words) {
  const id = `input-${input.name}`;
  const label = element('label', {for: id}, input.name,
    element('span', {class: 'aside'}, ` ${input.type.slice(3).toLowerCase()} [${input.shape.join(', ')}]`));
  if (isDigit(input)) return pixelField(input, label, element('digit-pad', {id}));
  const sides = pictureSides(input);
  if (sides) {
    const picture = element('picture-input');
    picture.picture = {sides, id};
    return pixelField(input, label, picture);
  }
  return textField(input, label, id, words);
}

function pixelField(input, label, control) {
  return {
    element: element('div', {class: 'field wide'}, label, control),
    read: () => shaped(control.pixels, input),
    write: (value) => {
      if (Array.isArray(value)) control.pixels = value.flat(Infinity);
    },
  };
}

function textField(input, label, id, words) {
  const example = exampleOf(input);
  const isText = typeof example === 'string';
  const isWide = !isText && typeof example === 'object';
  const control = element(isWide ? 'textarea' : 'input', {id, type: 'text', rows: 2, spellcheck: 'false', list: words && !isWide ? `${id}-words` : null});
  control.value = isText ? example : JSON.stringify(example);
  return {
    element: element('div', {class: isWide ? 'field wide' : 'field'}, label, control,
      words && !isWide ? element('datalist', {id: `${id}-words`}, words.map((value) => element('option', {value}))) : null),
    read: () => valueOf(input, control.value, isText),
    write: (value) => {
      control.value = isText ? textOf(value) : JSON.stringify(numbersOf(value, example));
    },
  };
}

function valueOf(input, text, isText) {
  if (isText) return kBytes.test(text) ? JSON.parse(text) : text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${input.name} is no JSON: ${text.slice(0, 40)}`);
  }
}

const textOf = (value) => typeof value === 'string' ? value.trim() : JSON.stringify(value);

// Texts of CSV as the numbers that the input takes, in its shape; a blank is what an empty form has.
function numbersOf(value, example) {
  if (!Array.isArray(example)) {
    const one = Array.isArray(value) ? value[0] : value;
    if (typeof example === 'boolean') return one === true || one === 'true' || one === '1' || one === 1;
    return one === null || String(one).trim() === '' || !Number.isFinite(Number(one)) ? example : Number(one);
  }
  const list = Array.isArray(value) ? value : [value];
  const isLong = example.length === 1 && list.length > 1;
  return isLong ? list.map((one) => numbersOf(one, example[0])) : example.map((one, i) => numbersOf(list[i] ?? null, one));
}
