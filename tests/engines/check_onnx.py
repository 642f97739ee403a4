"""check_onnx.py FOLDER [LOGITS]: model.onnx passes ONNX's own checker, and gives out.*.npy for in.*.npy when numpy runs it.

LOGITS is the tolerance for the output of that name, where a model's numbers are so large that float rounds more than that.
"""

import sys

import onnx

import compare
import onnx_numpy

folder = sys.argv[1]
model = onnx.load(f"{folder}/model.onnx")
onnx.checker.check_model(model, full_check=True)
if model.producer_name != "muster":
    sys.exit(f"the producer is {model.producer_name}")

inputs = compare.arrays(folder, "in")
wanted = compare.arrays(folder, "out")
names = {each.name for each in model.graph.output}
if names != set(wanted):
    sys.exit(f"the outputs are {sorted(names)}, not {sorted(wanted)}")
batch = len(next(iter(wanted.values())))
# Ids of columns have no row for each example: all at once.
together = any(value.ndim == 0 or len(value) != batch or name.endswith(("/ids", "/rows")) for name, value in inputs.items())
step = batch if together else compare.ROWS
tolerances = {"logits": float(sys.argv[2])} if len(sys.argv) > 2 else {}
worst = dict.fromkeys(sorted(wanted), 0.0)
for begin in range(0, batch, step):
    rows = slice(None) if together else slice(begin, begin + step)
    outputs = onnx_numpy.run(model, {name: value if together else value[rows] for name, value in inputs.items()})
    for name, value in outputs.items():
        difference = compare.expect_equal(name, value, wanted[name][rows], tolerances.get(name, compare.TOLERANCE))
        worst[name] = max(worst[name], difference)
text = ", ".join(f"{name} {value:.2g}" for name, value in worst.items())
print(f"onnx {onnx.__version__} opset {model.opset_import[0].version}: {batch} examples, largest differences: {text}")
