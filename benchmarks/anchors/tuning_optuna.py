#!/usr/bin/env python3
"""What a user of Optuna would get: the median regret of its samplers, with their defaults, after so many trials.

    tuning_optuna.py [--seeds N] [--trials N]

Prints one JSON line: by sampler and function, the median over seeds of the best value minus the function's minimum.
The functions are those of tuning_bench.cpp, over the unit cube. Needs python3-optuna and python3-cmaes.
"""
import argparse
import json
import math
import statistics
import warnings

import optuna

H_ALPHA = [1.0, 1.2, 3.0, 3.2]
H_A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
H_P = [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
       [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]


def branin(x):
    u, v = 15 * x[0] - 5, 15 * x[1]
    valley = v - 5.1 / (4 * math.pi**2) * u * u + 5 / math.pi * u - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(u) + 10


def hartmann6(x):
    return -sum(a * math.exp(-sum(row[j] * (x[j] - centre[j] / 1e4)**2 for j in range(6)))
                for a, row, centre in zip(H_ALPHA, H_A, H_P))


def rosenbrock4(x):
    z = [4 * v - 2 for v in x]
    return sum(100 * (z[i + 1] - z[i]**2)**2 + (1 - z[i])**2 for i in range(3))


FUNCTIONS = {"branin": (branin, 2, 0.397887), "hartmann6": (hartmann6, 6, -3.32237), "rosenbrock4": (rosenbrock4, 4, 0.0)}
SAMPLERS = {"tpe": optuna.samplers.TPESampler, "cma_es": optuna.samplers.CmaEsSampler,
            "random": optuna.samplers.RandomSampler}


def regret(function, dimensions, minimum, sampler, trials):
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: function([trial.suggest_float(f"x{i}", 0, 1) for i in range(dimensions)]), n_trials=trials)
    return study.best_value - minimum


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--trials", type=int, default=50)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(json.dumps({name: {function: statistics.median(regret(*FUNCTIONS[function], sampler(seed=seed), arguments.trials)
                                                         for seed in range(arguments.seeds))
                             for function in FUNCTIONS}
                      for name, sampler in SAMPLERS.items()}))


if __name__ == "__main__":
    main()
