"""What the anchors share: how a step is timed, and how the best setting is told."""
import json
import time

import torch


def examples_per_second(step, batch, seconds):
    """The median of three timings, after five steps that do not count."""
    for _ in range(5):
        step()
    rates = []
    for _ in range(3):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 3:
            step()
            count += 1
        rates.append(count * batch / (time.perf_counter() - start))
    return sorted(rates)[1]


def print_best(results):
    """One JSON line: the best of the examples/s by setting, and all of them."""
    best = max(results, key=results.get)
    print(json.dumps({"examples_per_second": results[best], "setting": best, "all": results,
                      "torch": torch.__version__}))
