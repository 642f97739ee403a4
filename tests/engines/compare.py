"""What the engines' scripts share: the case's arrays, and the comparison."""

import pathlib
import sys

import numpy as np

TOLERANCE = 1e-5
# As many examples at a time as keep memory small.
ROWS = 100


def arrays(folder, prefix):
    """The arrays of the files PREFIX.NAME.npy, by NAME, in which | stands for /."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob(f"{prefix}.*.npy")):
        found[path.name[len(prefix) + 1:-len(".npy")].replace("|", "/")] = np.load(path)
    return found


def expect_equal(name, got, wanted, tolerance=TOLERANCE):
    if got.shape != wanted.shape:
        sys.exit(f"{name} has shape {got.shape}, not {wanted.shape}")
    if np.issubdtype(wanted.dtype, np.integer):
        if not np.array_equal(got, wanted):
            sys.exit(f"{name} differs in {np.sum(got != wanted)} of {wanted.size} numbers")
        return 0.0
    difference = np.abs(got - wanted) / np.maximum(1, np.abs(wanted))
    worst = float(difference.max()) if difference.size else 0.0
    if not worst <= tolerance:
        sys.exit(f"{name} differs by {worst}")
    if name in ("logits", "probabilities") and not np.array_equal(got.argmax(-1), wanted.argmax(-1)):
        sys.exit(f"{name}: another class is the best")
    return worst
