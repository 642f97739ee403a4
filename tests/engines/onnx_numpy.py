"""Runs ONNX models with numpy: the operators that muster writes, after ONNX's specification.

A second opinion on muster's conversion, so nothing here is shared with it.
"""

import itertools

import numpy as np
import onnx
from onnx import numpy_helper

TYPES = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}


def attributes(node):
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def same_upper_pads(sizes, kernel, strides):
    total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(sizes, kernel, strides)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]


def windows(x, kernel, strides, dilations, pads, fill):
    """[batch, channels, size...] into [batch, channels, out..., kernel...], of two or three axes each."""
    axes = len(kernel)
    x = np.pad(x, ((0, 0), (0, 0), *zip(pads[:axes], pads[axes:])), constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + axes)))
    return view[(slice(None), slice(None), *(slice(None, None, step) for step in (*strides, *dilations)))]


def window_arguments(x, attrs, kernel):
    axes = len(kernel)
    strides = attrs.get("strides", [1] * axes)
    dilations = attrs.get("dilations", [1] * axes)
    pads = attrs.get("pads", [0] * 2 * axes)
    if attrs.get("auto_pad", b"NOTSET") == b"SAME_UPPER":
        pads = same_upper_pads(x.shape[2:], kernel, strides)
    return kernel, strides, dilations, pads


def conv(attrs, x, w, b=None):
    groups = attrs.get("group", 1)
    patches = windows(x, *window_arguments(x, attrs, list(w.shape[2:])), 0)
    inside = x.shape[1] // groups
    outside = w.shape[0] // groups
    parts = []
    for g in range(groups):
        axes = x.ndim - 2
        part = np.tensordot(patches[:, g * inside:(g + 1) * inside], w[g * outside:(g + 1) * outside],
                            axes=((1, *range(2 + axes, 2 + 2 * axes)), range(1, 2 + axes)))
        parts.append(np.moveaxis(part, -1, 1))
    y = np.concatenate(parts, axis=1)
    return y if b is None else y + b.reshape(1, -1, *[1] * (x.ndim - 2))


def conv_transpose(attrs, x, w):
    high, wide = attrs["strides"]
    rows, columns = w.shape[2:]
    shape = (x.shape[0], w.shape[1], (x.shape[2] - 1) * high + rows, (x.shape[3] - 1) * wide + columns)
    y = np.zeros(shape, x.dtype)
    for i, j in itertools.product(range(rows), range(columns)):
        part = np.moveaxis(np.tensordot(x, w[:, :, i, j], axes=((1,), (0,))), 3, 1)
        y[:, :, i:i + (x.shape[2] - 1) * high + 1:high, j:j + (x.shape[3] - 1) * wide + 1:wide] += part
    return y


def max_pool(attrs, x):
    return windows(x, *window_arguments(x, attrs, attrs["kernel_shape"]), -np.inf).max(axis=(4, 5)).astype(x.dtype)


def average_pool(attrs, x):
    arguments = window_arguments(x, attrs, attrs["kernel_shape"])
    total = windows(x, *arguments, 0).sum(axis=(4, 5))
    counted = np.ones_like(x[:1, :1])
    if attrs.get("count_include_pad", 0):
        return total / np.prod(attrs["kernel_shape"])
    return total / windows(counted, *arguments, 0).sum(axis=(4, 5))


def batch_normalization(attrs, x, scale, bias, mean, variance):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = scale / np.sqrt(variance + np.float32(attrs.get("epsilon", 1e-5)))
    return (x - mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape)


def softmax(attrs, x):
    axis = attrs.get("axis", -1)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(attrs, x):
    axis = attrs.get("axis", -1)
    moved = x - x.max(axis=axis, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=axis, keepdims=True))


def reshape(attrs, x, shape):
    sizes = [int(n) for n in shape]
    if not attrs.get("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


def slice_(attrs, x, starts, ends, axes=None, steps=None):
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        n = x.shape[axis]
        start, end = int(start), int(end)
        start = start + n if start < 0 else start
        end = end + n if end < 0 else end
        if step > 0:
            index[axis] = slice(min(max(start, 0), n), min(max(end, 0), n), int(step))
        else:
            start, end = min(max(start, 0), n - 1), min(max(end, -1), n - 1)
            index[axis] = slice(start, None if end < 0 else end, int(step))
    return x[tuple(index)]


def pad(attrs, x, pads, value=None):
    rank = x.ndim
    both = [(int(pads[i]), int(pads[i + rank])) for i in range(rank)]
    return np.pad(x, both, constant_values=0 if value is None else value)


def unsqueeze(attrs, x, axes):
    rank = x.ndim + len(axes)
    for axis in sorted(int(a) % rank for a in axes):
        x = np.expand_dims(x, axis)
    return x


def squeeze(attrs, x, axes=None):
    return np.squeeze(x) if axes is None else np.squeeze(x, tuple(int(a) for a in axes))


def expand(attrs, x, shape):
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(n) for n in shape)))


def one_hot(attrs, indices, depth, values):
    depth = int(np.reshape(depth, ()))
    inside = (indices >= -depth) & (indices < depth)
    hot = (np.arange(depth) == (indices % depth)[..., None]) & inside[..., None]
    return np.moveaxis(np.where(hot, values[1], values[0]), -1, attrs.get("axis", -1))


def scatter_nd(attrs, data, indices, updates):
    assert attrs.get("reduction") == b"add"
    out = data.copy()
    np.add.at(out, tuple(np.moveaxis(indices, -1, 0)), updates)
    return out


def split(attrs, outputs, x, sizes=None):
    axis = attrs.get("axis", 0)
    if sizes is None:
        return np.split(x, outputs, axis=axis)
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def reduce_(function):
    def run(attrs, x, axes=None):
        axes = attrs.get("axes") if axes is None else axes
        axes = None if axes is None else tuple(int(a) for a in axes)
        return function(x, axis=axes, keepdims=bool(attrs.get("keepdims", 1))).astype(x.dtype)
    return run


def arg(function):
    def run(attrs, x):
        axis = attrs.get("axis", 0)
        found = function(x, axis=axis).astype(np.int64)
        return np.expand_dims(found, axis) if attrs.get("keepdims", 1) else found
    return run


def erf(attrs, x):
    import math
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def div(attrs, a, b):
    return a / b if np.issubdtype(a.dtype, np.floating) else np.trunc(a / b).astype(a.dtype)


def matmul(attrs, a, b):
    """In twice the width, so that what differs is the other's rounding."""
    return np.matmul(a, b, dtype=np.float64).astype(a.dtype)


def cumsum(attrs, x, axis):
    axis = int(axis)
    x = np.flip(x, axis) if attrs.get("reverse", 0) else x
    y = np.cumsum(x, axis=axis, dtype=x.dtype)
    y = y - x if attrs.get("exclusive", 0) else y
    return np.flip(y, axis) if attrs.get("reverse", 0) else y


def top_k(attrs, x, k):
    axis = attrs.get("axis", -1)
    order = np.argsort(-x, axis=axis, kind="stable")
    indices = np.take(order, np.arange(int(k[0])), axis=axis)
    return np.take_along_axis(x, indices, axis), indices.astype(np.int64)


def resize(attrs, x, roi, scales, sizes):
    mode = attrs["coordinate_transformation_mode"]
    for axis in (2, 3):
        n, m = x.shape[axis], int(sizes[axis])
        at = np.arange(m, dtype=np.float64)
        if mode == b"align_corners":
            at = at * (n - 1) / max(m - 1, 1)
        elif mode == b"half_pixel":
            at = (at + 0.5) * n / m - 0.5
        else:
            at = at * n / m
        if attrs["mode"] == b"nearest":
            assert attrs["nearest_mode"] == b"floor"
            x = np.take(x, np.floor(at).astype(int), axis=axis)
            continue
        low = np.floor(at).astype(int)
        share = (at - low).astype(x.dtype).reshape([-1 if i == axis else 1 for i in range(4)])
        first, second = (np.take(x, np.clip(i, 0, n - 1), axis=axis) for i in (low, low + 1))
        x = first * (1 - share) + second * share
    return x


def label_encoder(attrs, x):
    """Of the domain ai.onnx.ml: what stands for each key, or the default."""
    keys = attrs["keys_strings"] if "keys_strings" in attrs else attrs["keys_int64s"]
    known = dict(zip(keys, attrs["values_int64s"]))
    found = [known.get(each, attrs["default_int64"]) for each in x.ravel().tolist()]
    return np.array(found, np.int64).reshape(x.shape)


# Those with more than one result.
SEVERAL = {"TopK"}


def plain(function):
    return lambda attrs, *inputs: function(*inputs)



OPERATORS = {
    "Abs": plain(np.abs), "Add": plain(np.add), "And": plain(np.logical_and), "ArgMax": arg(np.argmax),
    "ArgMin": arg(np.argmin), "AveragePool": average_pool, "BatchNormalization": batch_normalization,
    "Cast": lambda attrs, x: x.astype(TYPES[attrs["to"]]), "Ceil": plain(np.ceil),
    "Clip": lambda attrs, x, low, high: np.clip(x, low, high),
    "Concat": lambda attrs, *x: np.concatenate(x, axis=attrs["axis"]), "Conv": conv, "ConvTranspose": conv_transpose, "Cos": plain(np.cos),
    "CumSum": cumsum, "Div": div, "Einsum": lambda attrs, *x: np.einsum(attrs["equation"].decode(), *x),
    "Elu": lambda attrs, x: np.where(x > 0, x, attrs.get("alpha", 1.0) * np.expm1(x)).astype(x.dtype),
    "Equal": plain(np.equal), "Erf": erf, "Exp": plain(np.exp), "Expand": expand, "Floor": plain(np.floor),
    "Gather": lambda attrs, x, i: np.take(x, i, axis=attrs.get("axis", 0)),
    "GatherND": lambda attrs, x, i: x[tuple(np.moveaxis(i, -1, 0))],
    "Greater": plain(np.greater), "GreaterOrEqual": plain(np.greater_equal), "Identity": plain(lambda x: x),
    "LabelEncoder": label_encoder, "NonZero": plain(lambda x: np.array(np.nonzero(x), np.int64)),
    "IsInf": plain(np.isinf), "IsNaN": plain(np.isnan), "Mod": plain(np.mod), "Resize": resize, "Sin": plain(np.sin),
    "TopK": top_k, "Xor": plain(np.logical_xor),
    "LeakyRelu": lambda attrs, x: np.where(x > 0, x, np.float32(attrs.get("alpha", 0.01)) * x),
    "Less": plain(np.less), "LessOrEqual": plain(np.less_equal), "Log": plain(np.log), "LogSoftmax": log_softmax,
    "MatMul": matmul, "Max": plain(np.maximum), "MaxPool": max_pool, "Min": plain(np.minimum),
    "Mul": plain(np.multiply), "Neg": plain(np.negative), "Not": plain(np.logical_not), "OneHot": one_hot,
    "Or": plain(np.logical_or), "Pad": pad, "Pow": plain(np.power), "Range": plain(np.arange),
    "Reciprocal": plain(lambda x: 1 / x), "ReduceMax": reduce_(np.max), "ReduceMean": reduce_(np.mean),
    "ReduceMin": reduce_(np.min), "ReduceProd": reduce_(np.prod), "ReduceSum": reduce_(np.sum),
    "Relu": plain(lambda x: np.maximum(x, 0)), "Reshape": reshape, "Round": plain(np.round), "ScatterND": scatter_nd,
    "Shape": plain(lambda x: np.array(x.shape, np.int64)), "Sigmoid": plain(lambda x: 1 / (1 + np.exp(-x))),
    "Sign": plain(np.sign), "Size": plain(lambda x: np.array(x.size, np.int64)), "Slice": slice_, "Softmax": softmax,
    "Softplus": plain(lambda x: np.logaddexp(x, 0)), "Softsign": plain(lambda x: x / (1 + np.abs(x))),
    "Sqrt": plain(np.sqrt), "Squeeze": squeeze, "Sub": plain(np.subtract),
    "Sum": lambda attrs, *x: sum(x[1:], x[0]), "Tanh": plain(np.tanh),
    "Tile": lambda attrs, x, n: np.tile(x, tuple(int(i) for i in n)),
    "Transpose": lambda attrs, x: np.transpose(x, attrs["perm"]), "Unsqueeze": unsqueeze, "Where": plain(np.where),
}


STRING = 8


def has_type(value, value_info):
    """Words are numpy's bytes."""
    number = value_info.type.tensor_type.elem_type
    return value.dtype.kind == "S" if number == STRING else value.dtype == TYPES[number]


def loop(node, most, goes_on, *carried):
    """As often as the condition holds; no value of the graph outside is used inside."""
    assert most is None
    graph, rounds = attributes(node)["body"], 0
    while goes_on:
        given = [np.array(rounds, np.int64), np.array(True), *carried]
        outputs = run_graph(graph, {each.name: value for each, value in zip(graph.input, given)})
        goes_on, *carried = (outputs[each.name] for each in graph.output)
        rounds += 1
    return carried


def run(model, inputs):
    """The outputs of the model by name."""
    return run_graph(model.graph, inputs)


def run_graph(graph, inputs):
    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    for each in graph.input:
        given = inputs[each.name]
        assert has_type(given, each), f"{each.name} is {given.dtype}"
        values[each.name] = given
    for node in graph.node:
        arguments = [values[name] if name else None for name in node.input]
        try:
            if node.op_type == "Split":
                results = split(attributes(node), len(node.output), *arguments)
            elif node.op_type == "Loop":
                results = loop(node, *arguments)
            else:
                results = OPERATORS[node.op_type](attributes(node), *arguments)
                results = results if node.op_type in SEVERAL else [results]
        except Exception as error:
            raise RuntimeError(f"{node.op_type} '{node.name}': {error}") from error
        for name, result in itertools.zip_longest(node.output, results):
            values[name] = np.asarray(result)
    outputs = {}
    for each in graph.output:
        value = values[each.name]
        assert has_type(value, each), f"{each.name} comes out as {value.dtype}"
        outputs[each.name] = value
    return outputs
