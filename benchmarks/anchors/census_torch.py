#!/usr/bin/env python3
"""What a user of PyTorch would run: the training step of the Census wide and deep model, as fast as plain PyTorch does
it here.

    census_torch.py [--batch N] [--seconds S]

The wide part is embedding bags of dimension 1 with sparse gradients: one bag a column, or one for all columns with
their ids moved apart. Prints the best examples/s over both, thread counts, and sparse and dense gradients of the deep
part's small embeddings, as one JSON line. Ids lie in memory, so hashing words and input cost nothing.
"""
import argparse
import itertools
import os

import torch
from torch import nn
from torch.nn import functional as F

from anchor import examples_per_second, print_best

# Crosses, gender, native_country, education, occupation, workclass, marital_status, relationship, age buckets.
WIDE = [10_000, 1_000_000, 10_000, 2, 100, 16, 100, 9, 7, 6, 11]
# How many of a table's rows people can have: as many distinct words and combinations as there are.
USED = [16 * 15, 11 * 5 * 15, 11 * 15, 2, 11, 16, 15, 9, 7, 6, 11]
INDICATORS_AND_NUMBERS = 45 + 5
EMBEDDED, USED_EMBEDDED, DIMENSION = [100, 100], [11, 15], 8
HIDDEN = [100, 70, 48, 34]
BATCHES = 64


class WideAndDeep(nn.Module):
    def __init__(self, joint, sparse_embeddings):
        super().__init__()
        tables = [sum(WIDE)] if joint else WIDE
        self.wide = nn.ModuleList(nn.EmbeddingBag(n, 1, mode="sum", sparse=True) for n in tables)
        self.bias = nn.Parameter(torch.zeros(1))
        self.embeddings = nn.ModuleList(nn.EmbeddingBag(n, DIMENSION, mode="mean", sparse=sparse_embeddings)
                                        for n in EMBEDDED)
        sizes = [INDICATORS_AND_NUMBERS + DIMENSION * len(EMBEDDED), *HIDDEN, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, wide, embedded, dense):
        x = torch.cat([dense, *(table(ids) for table, ids in zip(self.embeddings, embedded))], 1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        logits = self.layers[-1](x) + self.bias
        for table, ids in zip(self.wide, wide):
            logits = logits + table(ids)
        return logits


def make_batches(batch, joint):
    def drawer(rows, used):
        words = torch.randperm(rows)[:used]
        return lambda: words[torch.randint(0, used, (batch, 1))]

    wide = [drawer(*sizes) for sizes in zip(WIDE, USED)]
    deep = [drawer(*sizes) for sizes in zip(EMBEDDED, USED_EMBEDDED)]
    result = []
    for _ in range(BATCHES):
        columns = [draw() for draw in wide]
        if joint:
            starts = [sum(WIDE[:i]) for i in range(len(WIDE))]
            columns = [torch.cat([ids + start for ids, start in zip(columns, starts)], 1)]
        embedded = [draw() for draw in deep]
        dense = torch.rand(batch, INDICATORS_AND_NUMBERS)
        labels = torch.randint(0, 2, (batch, 1)).float()
        result.append((columns, embedded, dense, labels))
    return result


def rate(batch, seconds, threads, joint, sparse_embeddings):
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    model = WideAndDeep(joint, sparse_embeddings)
    batches = itertools.cycle(make_batches(batch, joint))
    sparse = [table.weight for table in model.wide]
    if sparse_embeddings:
        sparse += [table.weight for table in model.embeddings]
    known = {id(parameter) for parameter in sparse}
    dense = [parameter for parameter in model.parameters() if id(parameter) not in known]
    # PyTorch has no FTRL; Adagrad does less work and takes sparse gradients.
    optimizers = [torch.optim.Adagrad(sparse, lr=0.005, foreach=False),
                  torch.optim.Adagrad(dense, lr=0.001, foreach=True)]

    def step():
        wide, embedded, numbers, labels = next(batches)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(model(wide, embedded, numbers), labels, reduction="sum").backward()
        for optimizer in optimizers:
            optimizer.step()

    return examples_per_second(step, batch, seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3.0)
    flags = parser.parse_args()
    results = {}
    for threads in sorted({1, os.cpu_count()}):
        for joint in (False, True):
            for sparse_embeddings in (False, True):
                key = (f"{threads} threads, {'one table' if joint else 'a table a column'}, "
                       f"{'sparse' if sparse_embeddings else 'dense'} embeddings")
                results[key] = rate(flags.batch, flags.seconds, threads, joint, sparse_embeddings)
    print_best(results)


if __name__ == "__main__":
    main()
