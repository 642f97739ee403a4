#!/usr/bin/python3
"""Writes spiral.pt, the model that torchscript.cpp trains; needs PyTorch: spiral.py [FILE]"""
import sys

import torch
from torch import nn


class Spiral(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 64)
        self.norm = nn.BatchNorm1d(64)
        self.dropout = nn.Dropout(0.1)
        self.logits = nn.Linear(64, 3)

    def forward(self, point):
        return self.logits(self.dropout(torch.relu(self.norm(self.hidden(point)))))


torch.manual_seed(1)
torch.jit.script(Spiral()).save(sys.argv[1] if len(sys.argv) > 1 else "spiral.pt")
