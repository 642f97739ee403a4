// Elements without templates: text is always text, so nothing that a file says becomes markup.

/** An element: element('td', {class: 'number', onclick: f}, 'text', child, null). */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  set(made, attributes);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const kSvg = 'http://www.w3.org/2000/svg';

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(kSvg, name);
  set(made, attributes);
  made.append(...children.flat());
  return made;
}

function set(made, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'color') made.style.setProperty('--color', value);
    else made.setAttribute(key, value === true ? '' : value);
  }
}
