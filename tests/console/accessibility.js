// Checks that a page can be read with a screen reader, a keyboard or weak eyes; returns the violations, in words. Run by
// browser_test in every page, light, dark and narrow.
const wrong = [];
const isSeen = (one) => one.checkVisibility?.() ?? one.offsetParent !== null;
const all = (selector) => [...document.querySelectorAll(selector)].filter(isSeen);
const words = (one) => `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ''} "${one.textContent.trim().slice(0, 30)}"`;

function nameOf(one) {
  const by = one.getAttribute('aria-labelledby');
  if (by) return document.getElementById(by)?.textContent.trim() ?? '';
  if (one.getAttribute('aria-label')) return one.getAttribute('aria-label').trim();
  if (one.labels?.length) return one.labels[0].textContent.trim();
  return (one.textContent || one.title || '').trim();
}

for (const one of all('button, a[href], input, select, textarea, meter, progress, [role=img], [role=region], [role=toolbar]')) {
  const isField = ['INPUT', 'SELECT', 'TEXTAREA'].includes(one.tagName);
  const hasName = isField ? one.labels?.length || one.getAttribute('aria-label') : nameOf(one);
  if (!hasName) wrong.push(`${words(one)} has no name`);
}
for (const one of all('[aria-labelledby], [aria-describedby], label[for]')) {
  for (const name of ['aria-labelledby', 'aria-describedby', 'for']) {
    const id = one.getAttribute(name);
    if (id && !document.getElementById(id)) wrong.push(`${words(one)}: ${name}="${id}" names nothing`);
  }
}
const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
for (const id of new Set(ids)) {
  if (ids.filter((one) => one === id).length > 1) wrong.push(`the id ${id} is there twice`);
}
if (document.querySelectorAll('main').length !== 1) wrong.push('there is not one main');
if (all('h1').length !== 1) wrong.push(`there are ${all('h1').length} h1`);
let level = 1;
for (const one of all('h1, h2, h3')) {
  const now = Number(one.tagName[1]);
  if (now > level + 1) wrong.push(`${words(one)} follows a heading of level ${level}`);
  level = now;
}
if (!document.documentElement.lang || !document.title) wrong.push('the page has no language or title');
for (const one of all('th')) if (!one.scope) wrong.push(`${words(one)} has no scope`);
for (const one of all('[tabindex]')) if (one.tabIndex > 0) wrong.push(`${words(one)} is out of the order of the page`);
for (const one of all('.scroll, pre, .log')) {
  const isCut = one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1;
  if (isCut && one.tabIndex < 0 && !one.querySelector('button, a, input')) wrong.push(`${words(one)} scrolls, and not by keyboard`);
}

// Contrast, as WCAG 2.1 counts it.
const numbers = (color) => color.match(/[\d.]+/g).map(Number);
function behind(one) {
  for (let at = one; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] > 0.99) return color;
  }
  return [255, 255, 255];
}
function light([red, green, blue]) {
  const part = (value) => value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
}
for (const one of all('main *, header *')) {
  const hasText = [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!hasText || one.disabled || one.closest('svg, .unseen, .skip, option')) continue;
  const style = getComputedStyle(one);
  const [a, b] = [light(numbers(style.color)), light(behind(one))].sort((x, y) => y - x);
  const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < (isLarge ? 3 : 4.5)) wrong.push(`${words(one)} has a contrast of ${contrast.toFixed(2)}`);
}
if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
return [...new Set(wrong)].slice(0, 20);
