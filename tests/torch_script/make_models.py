#!/usr/bin/python3
"""Writes the TorchScript files of the tests, by Debian's python3-torch: make_models.py [FOLDER]

They are checked in; the tests need no Python.
"""
import io
import math
import pathlib
import sys
import zipfile
from typing import Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.logits = nn.Linear(16, 3)

    def forward(self, x):
        return self.logits(torch.relu(self.hidden(x)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.25)
        self.logits = nn.Linear(64, 3)

    def forward(self, image):
        x = F.max_pool2d(torch.relu(self.norm(self.conv(image))), 2)
        return self.logits(self.dropout(x.flatten(1)))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        attended = torch.matmul(self.dropout(torch.softmax(scores, -1)), value)
        return self.out(attended.transpose(1, 2).reshape(x.size(0), x.size(1), -1))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, 2 * width)
        self.linear2 = nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.linear2(F.gelu(self.linear1(x)))))


class Encoder(nn.Module):
    """A transformer encoder that classifies 8 tokens of a vocabulary of 20."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.positions = nn.Parameter(torch.randn(8, 16) * 0.1)
        self.blocks = nn.ModuleList([Block(16, 2) for _ in range(2)])
        self.logits = nn.Linear(16, 3)

    def forward(self, tokens: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x, mask)
        return self.logits(x.mean(1))


class Counts(nn.Module):
    """A buffer that forward replaces by another tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        if self.training:
            self.seen = self.seen + x.size(0)
        return self.linear(x) + 0.001 * self.seen


class Remembers(nn.Module):
    """A number that is no tensor, which forward changes."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * float(self.calls)


class Dictionary(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(2, 3)
        self.right = nn.Linear(3, 3)

    def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        logits = self.left(inputs["a"]) + self.right(inputs["b"])
        return {"logits": logits, "probabilities": torch.softmax(logits, -1)}


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(2, 3)
        self.right = nn.Linear(3, 3)

    def forward(self, a: Tensor, b: Tensor, scale: float = 1.0) -> Tuple[Tensor, Tensor]:
        logits = (self.left(a) + self.right(b)) * scale
        return torch.softmax(logits, -1), logits


class Answer(NamedTuple):
    probabilities: Tensor
    logits: Tensor


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Answer:
        logits = self.linear(x)
        return Answer(torch.softmax(logits, -1), logits)


class Tied(nn.Module):
    """One matrix under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def rewritten(data: bytes, old: bytes, new: bytes) -> bytes:
    """The archive with other text in its code."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(result, "w") as target:
        for item in source.infolist():
            target.writestr(item, source.read(item).replace(old, new))
    return result.getvalue()


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    torch.manual_seed(1)
    for name, module in [("mlp", Mlp()), ("cnn", Cnn()), ("encoder", Encoder()), ("counts", Counts()),
                         ("remembers", Remembers()), ("dictionary", Dictionary()), ("pair", Pair()),
                         ("named", Named()), ("tied", Tied())]:
        torch.jit.script(module).save(str(folder / f"{name}.pt"))
    torch.jit.trace(Mlp(), torch.randn(2, 4)).save(str(folder / "traced_mlp.pt"))
    torch.jit.trace(Cnn().eval(), torch.randn(2, 1, 8, 8)).save(str(folder / "traced_in_eval.pt"))
    torch.jit.script(Mlp().half()).save(str(folder / "half.pt"))
    torch.jit.freeze(torch.jit.script(Mlp().eval())).save(str(folder / "frozen.pt"))
    fixed = Mlp()
    fixed.requires_grad_(False)
    torch.jit.script(fixed).save(str(folder / "without_gradients.pt"))
    torch.save(Mlp().state_dict(), folder / "weights_only.pt")
    mlp = (folder / "mlp.pt").read_bytes()
    (folder / "unknown_operator.pt").write_bytes(
        rewritten(mlp, b"torch.relu", b"torch.relu_of_tomorrow"))


if __name__ == "__main__":
    main()
