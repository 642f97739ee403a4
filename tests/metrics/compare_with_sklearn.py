#!/usr/bin/env python3
"""compare_with_sklearn.py FILE: are muster's metrics those of scikit-learn?

FILE holds cases of sklearn_metrics_test, one JSON object per line: labels, predictions or scores, weights, and what muster
made of them. Each value is computed again by scikit-learn; the largest differences are printed.
"""
import json
import math
import sys
import warnings

import numpy as np
from sklearn import calibration
from sklearn import metrics as sk

TOLERANCE = 1e-9


def regression(labels, predictions, weights, _):
    return {
        "mse": sk.mean_squared_error(labels, predictions, sample_weight=weights),
        "rmse": sk.mean_squared_error(labels, predictions, sample_weight=weights, squared=False),
        "mae": sk.mean_absolute_error(labels, predictions, sample_weight=weights),
        "mape": sk.mean_absolute_percentage_error(labels, predictions, sample_weight=weights),
        "r2": sk.r2_score(labels, predictions, sample_weight=weights),
    }


def classes(labels, predictions, weights, case):
    def scores(average):
        return sk.precision_recall_fscore_support(labels, predictions, average=average, sample_weight=weights, zero_division=0)
    values = {
        "accuracy": sk.accuracy_score(labels, predictions, sample_weight=weights),
        "balanced_accuracy": sk.balanced_accuracy_score(labels, predictions, sample_weight=weights),
        "f1_micro": scores("micro")[2],
    }
    for average in ("macro", "weighted"):
        values[f"precision_{average}"], values[f"recall_{average}"], values[f"f1_{average}"], _ = scores(average)
    names = list(range(case["classes"]))
    matrix = sk.confusion_matrix(labels, predictions, labels=names, sample_weight=weights)
    values |= {f"count/{row}/{column}": matrix[row][column] for row in names for column in names}
    each = sk.precision_recall_fscore_support(labels, predictions, labels=names, sample_weight=weights, zero_division=0)
    for name in names:
        values |= {f"precision/{name}": each[0][name], f"recall/{name}": each[1][name], f"f1/{name}": each[2][name]}
    return values


def binary(labels, scores, weights, case):
    decisions = scores > 0.5
    values = {
        "precision": sk.precision_score(labels, decisions, sample_weight=weights, zero_division=0),
        "recall": sk.recall_score(labels, decisions, sample_weight=weights, zero_division=0),
        "f1": sk.f1_score(labels, decisions, sample_weight=weights, zero_division=0),
        "perplexity": math.exp(sk.log_loss(labels, scores, sample_weight=weights, labels=[0, 1])),
    }
    # scikit-learn's curve takes no weights.
    if not case["weights"]:
        bins = case["bins"]
        true, mean = calibration.calibration_curve(labels, scores, n_bins=bins)
        counts = np.histogram(np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], scores), bins=np.arange(bins + 1))[0]
        counts = counts[counts > 0]
        values["calibration_error"] = np.average(np.abs(true - mean), weights=counts)
        values |= {f"curve/{i}": pair[0] * 10 + pair[1] for i, pair in enumerate(zip(true, mean))}
    # One class alone has no curve.
    counted = np.ones(len(labels)) if weights is None else weights
    if all(sum(counted[labels == one]) > 0 for one in (0, 1)):
        values["exact_auc"] = sk.roc_auc_score(labels, scores, sample_weight=weights)
        values["average_precision"] = sk.average_precision_score(labels, scores, sample_weight=weights)
    return values


def ranking(labels, scores, weights, case):
    k = case["k"]
    highest = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    chosen = np.zeros_like(labels)
    np.put_along_axis(chosen, highest, 1, axis=1)
    return {
        "precision_at_k": sk.precision_score(labels, chosen, average="micro", sample_weight=weights, zero_division=0),
        "recall_at_k": sk.recall_score(labels, chosen, average="micro", sample_weight=weights, zero_division=0),
    }


KINDS = {"regression": regression, "classes": classes, "binary": binary, "ranking": ranking}


def differences(case):
    labels, predictions = np.array(case["labels"]), np.array(case["predictions"])
    weights = np.array(case["weights"]) if case["weights"] else None
    wanted = KINDS[case["kind"]](labels, predictions, weights, case)
    found = case["values"]
    if wanted.keys() != found.keys():
        raise SystemExit(f"{case['name']}: muster gave {sorted(found)}, scikit-learn {sorted(wanted)}")
    for key, value in wanted.items():
        mine = math.nan if found[key] is None else found[key]
        if math.isnan(value) and math.isnan(mine):
            continue
        yield key, mine, float(value), abs(mine - value) / max(1.0, abs(value))


def main():
    warnings.simplefilter("ignore")
    compared, largest, failed = 0, 0.0, []
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            for key, mine, value, difference in differences(case):
                compared += 1
                largest = max(largest, difference)
                if not difference <= TOLERANCE:
                    failed.append(f"{case['name']}: {key} is {mine!r}, by scikit-learn {value!r}")
    print("\n".join(failed[:20]))
    print(f"{compared} values compared with scikit-learn, largest difference {largest:.2g}")
    return 1 if failed or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
