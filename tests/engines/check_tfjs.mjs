// check_tfjs.mjs FOLDER ENGINES: TensorFlow.js gives out.*.npy for in.*.npy from model.pb, a frozen
// GraphDef. ENGINES is where npm installed @tensorflow/tfjs. Its own converter is a Python program;
// what it makes of a frozen graph, JSON with the constants beside it, is made here.
import {readFileSync} from "node:fs";
import path from "node:path";

import {arrays, compare, load, report} from "./arrays.mjs";

const [folder, engines] = process.argv.slice(2);
const tf = load(engines, "@tensorflow/tfjs");

// The fields of a message in the wire format of protocol buffers: [number, value], where a value is
// bytes, or a number.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const kind = key & 7;
    if (kind === 0) {
      yield [key >> 3, varint()];
    } else if (kind === 2) {
      const length = Number(varint());
      yield [key >> 3, bytes.subarray(at, (at += length))];
    } else {
      const size = kind === 5 ? 4 : 8;
      yield [key >> 3, bytes.subarray(at, (at += size))];
    }
  }
}

const text = (bytes) => Buffer.from(bytes).toString();
const all = (bytes, number) => [...fields(bytes)].filter((each) => each[0] === number).map((each) => each[1]);
const first = (bytes, number) => all(bytes, number)[0];
// Numbers of a repeated field, packed or not.
const numbers = (bytes, number) =>
  all(bytes, number).flatMap((value) => {
    if (typeof value === "bigint") return [Number(value)];
    return [...fields(Buffer.concat([...unpacked(value)]))].map((each) => Number(each[1]));
  });
function* unpacked(bytes) {
  for (let at = 0, begin = 0; at < bytes.length; ++at) {
    if (bytes[at] > 127) continue;
    yield Buffer.concat([Buffer.from([8]), bytes.subarray(begin, at + 1)]);
    begin = at + 1;
  }
}

function shapeOf(bytes) {
  return all(bytes, 2).map((dim) => Number(first(dim, 1) ?? 0n));
}

const READERS = {1: ["float32", Float32Array], 3: ["int32", Int32Array], 4: ["int32", Uint8Array],
                 9: ["int32", BigInt64Array], 10: ["bool", Uint8Array]};

// A constant as tfjs has weights: whole numbers of any width are int32.
function weightOf(name, bytes) {
  const [dtype, Type] = READERS[Number(first(bytes, 1))];
  const shape = shapeOf(first(bytes, 2) ?? Buffer.alloc(0));
  const content = Buffer.from(first(bytes, 4) ?? Buffer.alloc(0));
  let values = new Type(content.buffer.slice(content.byteOffset, content.byteOffset + content.length));
  if (!content.length) values = wordsOf(bytes, Type);
  const size = shape.reduce((a, b) => a * b, 1);
  const filled = Array.from({length: size}, (_, i) => Number(values[Math.min(i, values.length - 1)] ?? 0));
  const Target = dtype === "float32" ? Float32Array : dtype === "bool" ? Uint8Array : Int32Array;
  const data = Target.from(filled, (value) => Math.max(Math.min(value, dtype === "int32" ? 2147483647 : Infinity),
                                                       dtype === "int32" ? -2147483648 : -Infinity));
  return {spec: {name, shape, dtype}, data: Buffer.from(data.buffer)};
}

function wordsOf(bytes, Type) {
  if (Type !== Float32Array) return [7, 10, 11].flatMap((field) => numbers(bytes, field));
  return all(bytes, 5).flatMap((value) => {
    const copy = Buffer.from(value);
    return [...new Float32Array(copy.buffer.slice(copy.byteOffset, copy.byteOffset + copy.length))];
  });
}

function attributeOf(bytes) {
  for (const [number, value] of fields(bytes)) {
    if (number === 1) {
      return {list: {i: numbers(value, 3), s: all(value, 2).map((each) => Buffer.from(each).toString("base64")),
                     type: numbers(value, 6)}};
    }
    if (number === 2) return {s: Buffer.from(value).toString("base64")};
    if (number === 3) return {i: Number(value)};
    if (number === 4) return {f: Buffer.from(value).readFloatLE()};
    if (number === 5) return {b: value !== 0n};
    if (number === 6) return {type: Number(value)};
    if (number === 7) return {shape: {dim: shapeOf(value).map((size) => ({size: String(size)}))}};
  }
  return {};
}

const weights = [];
const nodes = all(readFileSync(path.join(folder, "model.pb")), 1).map((bytes) => {
  const node = {name: text(first(bytes, 1)), op: text(first(bytes, 2)), input: all(bytes, 3).map(text), attr: {}};
  for (const entry of all(bytes, 5)) {
    const key = text(first(entry, 1));
    if (key === "value" && node.op === "Const") {
      weights.push(weightOf(node.name, first(first(entry, 2), 8)));
    } else {
      node.attr[key] = attributeOf(first(entry, 2));
    }
  }
  return node;
});

const model = await tf.loadGraphModel({
  load: async () => ({
    modelTopology: {node: nodes, versions: {producer: 134}},
    format: "graph-model",
    weightSpecs: weights.map((each) => each.spec),
    weightData: new Uint8Array(Buffer.concat(weights.map((each) => each.data))).buffer,
  }),
});
const given = {};
for (const [name, value] of Object.entries(arrays(folder, "in"))) {
  const whole = value.type !== "<f4";
  given[name] = tf.tensor(whole ? Int32Array.from(value.data, Number) : value.data, value.shape, whole ? "int32" : "float32");
}
const differences = {};
for (const [name, wanted] of Object.entries(arrays(folder, "out"))) {
  const node = nodes.find((each) => each.name === name || each.name.endsWith(`/${name}`));
  const output = model.execute(given, node ? node.name : name);
  differences[name] = compare(name, output.shape, output.dataSync(), wanted);
}
report(`TensorFlow.js ${tf.version.tfjs}`, differences);
