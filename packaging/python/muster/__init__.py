"""Estimators for libtorch: train, evaluate, export and predict with muster from Python.

    import muster

    estimator = muster.linear_classifier(feature_columns=columns, config=muster.RunConfig("runs/first"))
    estimator.train(input_fn, max_steps=1000)

The pipeline, the steps and the files are those of muster's C++; docs/guides/python.md is the guide.
"""
from muster import _libraries  # Before anything that loads OpenBLAS.
from muster._muster import *  # noqa: F403
from muster._muster import __version__
from muster.curves import scalars
from muster.hooks import Hook
from muster.progress import LiveCurve, Progress
from muster.modules import load_trained, torch_model
from muster.runs import cancel_job, describe_job, jobs, launch, run_muster, show_study, submit_job, tune
