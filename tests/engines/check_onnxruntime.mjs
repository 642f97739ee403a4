// check_onnxruntime.mjs FOLDER ENGINES: onnxruntime gives out.*.npy for in.*.npy from model.onnx.
// ENGINES is where npm installed onnxruntime-node.
import path from "node:path";

import {arrays, compare, fail, load, report} from "./arrays.mjs";

const [folder, engines] = process.argv.slice(2);
const ort = load(engines, "onnxruntime-node");
const TYPES = {"<f4": "float32", "<i4": "int32", "<i8": "int64", "|u1": "uint8"};

const session = await ort.InferenceSession.create(path.join(folder, "model.onnx"));
const feeds = {};
for (const [name, value] of Object.entries(arrays(folder, "in"))) {
  feeds[name] = new ort.Tensor(TYPES[value.type], value.data, value.shape);
}
const outputs = await session.run(feeds);
const differences = {};
for (const [name, wanted] of Object.entries(arrays(folder, "out"))) {
  if (!outputs[name]) fail(`there is no output ${name}`);
  differences[name] = compare(name, outputs[name].dims, outputs[name].data, wanted);
}
report(`onnxruntime ${ort.env.versions.node}`, differences);
