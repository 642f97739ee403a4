// What the scripts of Node.js's engines share: the case's arrays, and the comparison.
import {readdirSync, readFileSync} from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";

const TOLERANCE = 1e-5;
const TYPES = {
  "<f4": (bytes) => new Float32Array(bytes),
  "<i4": (bytes) => new Int32Array(bytes),
  "<i8": (bytes) => new BigInt64Array(bytes),
  "|u1": (bytes) => new Uint8Array(bytes),
};

// A package of the folder that holds node_modules.
export function load(folder, name) {
  return createRequire(path.join(folder, "/"))(name);
}

function read(file) {
  const bytes = readFileSync(file);
  const end = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString("latin1", 10, end);
  const type = /'descr': '([^']*)'/.exec(header)[1];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(",").filter((each) => each.trim()).map(Number);
  const copy = bytes.buffer.slice(bytes.byteOffset + end, bytes.byteOffset + bytes.length);
  return {type, shape, data: TYPES[type](copy)};
}

// The arrays of the files PREFIX.NAME.npy, by NAME.
export function arrays(folder, prefix) {
  const found = {};
  for (const file of readdirSync(folder).sort()) {
    if (!file.startsWith(`${prefix}.`) || !file.endsWith(".npy")) continue;
    found[file.slice(prefix.length + 1, -".npy".length).replaceAll("|", "/")] = read(path.join(folder, file));
  }
  return found;
}

// The largest difference, relative where numbers are above 1; ends the process where it is too large.
export function compare(name, shape, data, wanted) {
  if (JSON.stringify([...shape]) !== JSON.stringify(wanted.shape)) {
    fail(`${name} has shape [${shape}], not [${wanted.shape}]`);
  }
  let worst = 0;
  for (let i = 0; i < wanted.data.length; ++i) {
    const expected = Number(wanted.data[i]);
    const difference = Math.abs(Number(data[i]) - expected) / Math.max(1, Math.abs(expected));
    if (!(difference <= worst)) worst = difference;
  }
  if (!(worst <= TOLERANCE)) fail(`${name} differs by ${worst}`);
  return worst;
}

export function fail(message) {
  console.error(message);
  process.exit(1);
}

export function report(engine, differences) {
  const text = Object.entries(differences).map(([name, value]) => `${name} ${value.toPrecision(2)}`);
  console.log(`${engine}: largest differences: ${text.join(", ")}`);
}
