#!/usr/bin/env python3
"""What a user of PyTorch would run: the training step of a small model, as fast as plain PyTorch does it here.

    train_torch.py {mlp,mnist} [--batch N] [--seconds S]

Prints the best examples/s over thread counts and oneDNN on and off, as one JSON line. Data lies in memory, so input
costs nothing.
"""
import argparse
import os

import torch
from torch import nn
from torch.nn import functional as F

from anchor import examples_per_second, print_best


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [66, 100, 70, 48, 34, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(64)
        self.dense = nn.Linear(7 * 7 * 64, 1024)
        self.norm3 = nn.BatchNorm1d(1024)
        self.logits = nn.Linear(1024, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        x = F.relu(self.norm3(self.dense(torch.flatten(x, 1))))
        return self.logits(F.dropout(x, 0.5, self.training))


def rate(model_name, batch, seconds, threads, onednn):
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    with torch.backends.mkldnn.flags(enabled=onednn):
        if model_name == "mlp":
            model, x = Mlp(), torch.randn(batch, 66)
            y = torch.randint(0, 2, (batch, 1)).float()
            loss_fn = F.binary_cross_entropy_with_logits
            optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
        else:
            model, x = MnistCnn(), torch.rand(batch, 1, 28, 28)
            y = torch.randint(0, 10, (batch,))
            loss_fn = F.cross_entropy
            optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss_fn(model(x), y).backward()
            optimizer.step()

        return examples_per_second(step, batch, seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["mlp", "mnist"])
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0)
    flags = parser.parse_args()
    batch = flags.batch or {"mlp": 40, "mnist": 128}[flags.model]
    results = {}
    for threads in sorted({1, os.cpu_count()}):
        for onednn in (False, True):
            key = f"{threads} threads, oneDNN {'on' if onednn else 'off'}"
            results[key] = rate(flags.model, batch, flags.seconds, threads, onednn)
    print_best(results)


if __name__ == "__main__":
    main()
