// <graph-view>: a graph of operations from left to right; scopes of names stand for what is in them.
import {element, svg} from './dom.js';

const kMostBoxes = 70;
const kBox = {width: 150, height: 34, across: 50, down: 14};

class GraphView extends HTMLElement {
  /** [{name, op, inputs}] of a GraphDef, whether these are all, and a name for it. */
  show(nodes, isWhole, label) {
    const boxes = boxesOf(nodes);
    const layers = layersOf(boxes);
    this.replaceChildren(
      element('p', {class: 'note'}, `${nodes.length} operations${isWhole ? '' : ' and more'}, ${boxes.size} shown`),
      element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label}, drawn(boxes, layers)));
    this.dataset.boxes = boxes.size;
  }
}

// "^a:0" is the node a.
const sourceOf = (input) => input.replace(/^\^/, '').replace(/:\d+$/, '');

function scopeOf(name, depth) {
  return name.split('/').slice(0, depth).join('/');
}

/** {name: {name, op, count, sources}}: the finest scopes that are few enough to be seen. */
function boxesOf(nodes) {
  const deepest = Math.max(1, ...nodes.map((node) => node.name.split('/').length));
  let depth = 1;
  while (depth < deepest && new Set(nodes.map((node) => scopeOf(node.name, depth + 1))).size <= kMostBoxes) ++depth;
  const boxes = new Map();
  for (const node of nodes) {
    const name = scopeOf(node.name, depth);
    if (!boxes.has(name)) {
      if (boxes.size >= kMostBoxes) continue;
      boxes.set(name, {name, op: node.op, count: 0, sources: new Set()});
    }
    const box = boxes.get(name);
    ++box.count;
    for (const input of node.inputs) {
      const source = scopeOf(sourceOf(input), depth);
      if (source !== name) box.sources.add(source);
    }
  }
  return boxes;
}

/** Boxes in columns: each behind all that it takes from; what goes in circles stands where it was met. */
function layersOf(boxes) {
  const places = new Map();
  const placeOf = (name, above) => {
    if (places.has(name)) return places.get(name);
    if (above.has(name)) return 0;
    above.add(name);
    const before = [...boxes.get(name).sources].filter((source) => boxes.has(source)).map((source) => placeOf(source, above) + 1);
    above.delete(name);
    places.set(name, Math.max(0, ...before));
    return places.get(name);
  };
  const layers = [];
  for (const name of boxes.keys()) (layers[placeOf(name, new Set())] ??= []).push(name);
  return Array.from(layers, (layer) => layer ?? []);
}

function drawn(boxes, layers) {
  const at = new Map();
  layers.forEach((layer, column) => layer.forEach((name, row) => at.set(name, {
    x: 8 + column * (kBox.width + kBox.across), y: 8 + row * (kBox.height + kBox.down)})));
  const width = layers.length * (kBox.width + kBox.across) - kBox.across + 16;
  const height = Math.max(1, ...layers.map((layer) => layer.length)) * (kBox.height + kBox.down) + 8;
  const lines = [...boxes.values()].flatMap((box) => [...box.sources].filter((source) => at.has(source))
    .map((source) => line(at.get(source), at.get(box.name))));
  return svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, class: 'graph', role: 'img',
                     'aria-label': `${boxes.size} operations: ${[...boxes.keys()].slice(0, 20).join(', ')}`},
    lines, [...boxes.values()].map((box) => boxOf(box, at.get(box.name))));
}

function line(from, to) {
  const [x1, y1, x2, y2] = [from.x + kBox.width, from.y + kBox.height / 2, to.x, to.y + kBox.height / 2];
  const middle = (x1 + x2) / 2;
  return svg('path', {d: `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`});
}

function boxOf(box, {x, y}) {
  const short = box.name.length > 22 ? `…${box.name.slice(-21)}` : box.name;
  return svg('g', {}, svg('title', {}, box.name), svg('rect', {x, y, width: kBox.width, height: kBox.height, rx: 6}),
    svg('text', {x: x + 8, y: y + 14}, short),
    svg('text', {x: x + 8, y: y + 27, class: 'op'}, box.count > 1 ? `${box.count} operations` : box.op));
}

customElements.define('graph-view', GraphView);
