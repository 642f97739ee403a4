#!/usr/bin/python3
"""The language model of examples/language_model in PyTorch, from the same weights on the same rows, step by step.

  language_model_torch.py BIN_DIR [--steps 200] [--text FILE...]

Trains with BIN_DIR/language_model, takes the weights of its checkpoint of step 0, trains PyTorch's model on the rows of
the same file, and compares the losses of all steps. Exits with 1 where two differ by more than 1e-4. Also tells tokens/s
of both, whose steps do the same work; input, summaries and hooks are in ours alone.
"""
import argparse
import glob
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 257
RATE, END_OF_RATE, WARM_UP, DECAY = 0.0003, 0.1, 20, 0.1


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self, hidden, heads, units):
        super().__init__()
        self.heads = heads
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(hidden), RmsNorm(hidden)
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name in "qkvo":
            self.self_attn.add_module(name + "_proj", nn.Linear(hidden, hidden, bias=False))
        self.mlp.gate_proj = nn.Linear(hidden, units, bias=False)
        self.mlp.up_proj = nn.Linear(hidden, units, bias=False)
        self.mlp.down_proj = nn.Linear(units, hidden, bias=False)

    def forward(self, x, cosines, sines, mask):
        batch, length, hidden = x.shape

        def heads_of(y):
            return y.view(batch, length, self.heads, -1).transpose(1, 2)

        def turned(y):
            a, b = y.chunk(2, -1)
            return torch.cat((a * cosines - b * sines, b * cosines + a * sines), -1)

        y, own = self.input_layernorm(x), self.self_attn
        query, key, value = turned(heads_of(own.q_proj(y))), turned(heads_of(own.k_proj(y))), heads_of(own.v_proj(y))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        x = x + own.o_proj((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, hidden))
        y = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(y)) * self.mlp.up_proj(y))


class LanguageModel(nn.Module):
    def __init__(self, hidden, layers, heads, units):
        super().__init__()
        self.depth = hidden // heads
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(TOKENS, hidden)
        self.model.layers = nn.ModuleList(Layer(hidden, heads, units) for _ in range(layers))
        self.model.norm = RmsNorm(hidden)

    def forward(self, ids):
        length = ids.shape[1]
        frequencies = 10000.0 ** (-torch.arange(0, self.depth, 2) / self.depth)
        angles = torch.arange(length)[:, None] * frequencies
        mask = torch.full((length, length), torch.finfo(torch.float32).min).triu(1)
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        return self.model.norm(x) @ self.model.embed_tokens.weight.t()


def records_of(path):
    data, at = pathlib.Path(path).read_bytes(), 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        yield data[at + 12:at + 12 + size]
        at += size + 16


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields_of(message):
    """(number, value) of each field of a protobuf message; values that have a length are bytes."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
        else:
            size, at = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else varint(message, at)
            value, at = message[at:at + size], at + size
        yield key >> 3, value


def field(message, *numbers):
    """The first field of these numbers, one inside the other."""
    for number in numbers:
        message = next(value for found, value in fields_of(message) if found == number)
    return message


def tokens_of(example):
    """The integers of the one feature of a tf.Example."""
    packed, at, tokens = field(example, 1, 1, 2, 3, 1), 0, []
    while at < len(packed):
        token, at = varint(packed, at)
        tokens.append(token)
    return tokens


def losses_in_events(folder):
    losses = {}
    for path in glob.glob(f"{folder}/events.out.tfevents.*"):
        for record in records_of(path):
            event = dict(fields_of(record))
            for number, value in fields_of(event.get(5, b"")):
                if number == 1 and field(value, 1) == b"loss":
                    losses[event[2]] = struct.unpack("<f", field(value, 2))[0]
    return losses


def rate_of(step, steps):
    cosine = END_OF_RATE + (1 - END_OF_RATE) * 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps))
    return RATE * cosine * min(1, step / WARM_UP)


def train_ours(programs, work, text, shape, steps, batch):
    def run(*words):
        subprocess.run([str(word) for word in words], check=True, capture_output=True)

    program = programs / "language_model"
    run(program, "records", "--output", work / "records", "--length", shape["length"], "--text", *text)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in shape.items()]
    begin = time.perf_counter()
    run(program, "train", "--records", work / "records", "--job-dir", work / "run", "--train-steps", steps, "--shuffle=false",
        "--train-batch-size", batch, "--learning-rate", RATE, "--warm-up-steps", WARM_UP, "--weight-decay", DECAY,
        "--save-summary-steps", 1, "--save-checkpoints-steps", steps, "--eval-every", steps, "--threads-per-replica",
        torch.get_num_threads(), *words)
    seconds = time.perf_counter() - begin
    run(programs / "muster", "checkpoint", "convert", work / "run/model.ckpt-0", work / "begin.npz")
    return losses_in_events(work / "run"), seconds


def train_torch(work, shape, steps, batch):
    model = LanguageModel(shape["hidden"], shape["layers"], shape["heads"], shape["mlp_units"])
    begin = {name.replace("/", "."): torch.from_numpy(value) for name, value in numpy.load(work / "begin.npz").items()}
    model.load_state_dict({name: begin[name] for name in model.state_dict()})
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith("norm.weight")], "weight_decay": 0.0},
              {"params": [p for n, p in model.named_parameters() if not n.endswith("norm.weight")], "weight_decay": DECAY}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    rows = torch.tensor([tokens_of(record) for record in records_of(work / "records/train.tfrecords")])
    # For ever, as batches of rows that go on over the end of the file.
    places = torch.arange(steps * batch) % len(rows)
    losses, start = {}, time.perf_counter()
    for step in range(steps):
        ids = rows[places[step * batch:(step + 1) * batch]]
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, steps)
            # Ours is added to sqrt(v) before the correction of its bias (muster/nn/optim/optimizer.h).
            group["eps"] = 1e-8 / math.sqrt(1 - 0.95 ** (step + 1))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses[step + 1] = loss.item()
    return losses, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--text", nargs="+", default=["/usr/share/common-licenses/*-[0-9]*"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shape = {"hidden": 64, "layers": 4, "heads": 4, "mlp_units": 176, "length": 64}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        ours, our_seconds = train_ours(options.programs, work, options.text, shape, options.steps, options.batch)
        theirs, seconds = train_torch(work, shape, options.steps, options.batch)
    missing = theirs.keys() - ours.keys()
    if missing:
        sys.exit(f"there is no loss of steps {sorted(missing)[:5]} in our events")
    worst = max(theirs, key=lambda step: abs(ours[step] - theirs[step]))
    difference = abs(ours[worst] - theirs[worst])
    tokens = options.steps * options.batch * shape["length"]
    print(json.dumps({"steps": options.steps, "first_loss": theirs[1], "last_loss": theirs[options.steps],
                      "largest_difference": difference, "at_step": worst, "tokens_per_second": round(tokens / seconds),
                      "ours_whole_run": round(tokens / our_seconds), "torch": torch.__version__}))
    sys.exit(1 if difference > 1e-4 else 0)


if __name__ == "__main__":
    main()
