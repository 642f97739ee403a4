"""Curves of runs, from their event files and as pictures."""
import collections

import numpy as np

from muster._muster import EventReader


def scalars(path):
    """The scalars of an event file or of a folder of them: {tag: (steps, values)}, two arrays each."""
    points = collections.defaultdict(lambda: ([], []))
    for _, step, values in EventReader(path):
        for tag, value in values.items():
            if isinstance(value, float):
                points[tag][0].append(step)
                points[tag][1].append(value)
    return {tag: (np.array(steps, np.int64), np.array(values)) for tag, (steps, values) in points.items()}


def svg(points, title, width=480, height=160):
    """A line through (step, value) points, as a picture for HTML."""
    steps, values = np.array(points, float).T if points else (np.zeros(1), np.zeros(1))
    low, high = values.min(), values.max()
    xs = 10 + (width - 20) * (steps - steps[0]) / max(steps[-1] - steps[0], 1)
    ys = height - 10 - (height - 40) * (values - low) / ((high - low) or 1)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{title}">'
            f'<text x="10" y="18" font-size="13" fill="currentColor">{title}: {values[-1]:.6g} at step {steps[-1]:.0f}, '
            f'{low:.6g} to {high:.6g}</text>'
            f'<polyline points="{line}" fill="none" stroke="#3274b5" stroke-width="1.5"/></svg>')
