"""The commands of the program muster that start other programs: clusters on this host, jobs and studies.

Programs are lists of words, such as [sys.executable, "train.py", "--seed", "1"]. Options are the flags of the command, with
"_" for "-": launch(program, workers=2, ps=1) is `muster launch --workers 2 --ps 1 -- PROGRAM`.
"""
import json
import os
import shutil
import subprocess

from muster._muster import Error, NotFound


def muster_program():
    """The program muster: MUSTER_PROGRAM, or the one that PATH has."""
    program = os.environ.get("MUSTER_PROGRAM") or shutil.which("muster")
    if program is None:
        raise NotFound("the program muster is not in PATH: install it, or name it by MUSTER_PROGRAM")
    return program


def flags_of(options):
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def run_muster(*words, capture=False):
    """Runs a command of muster; what it prints with `capture`. Raises Error where it fails."""
    command = [muster_program(), *map(str, words)]
    done = subprocess.run(command, capture_output=capture, text=True)
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines()
        raise Error(said[-1] if said else f"{' '.join(command)} exited with status {done.returncode}")
    return done.stdout


def launch(program, **options):
    """Runs the program as every task of a cluster on this host, to its end."""
    run_muster("launch", *flags_of(options), "--", *program)


def submit_job(job_id, program, **options):
    """Puts a job into the queue, and returns."""
    run_muster("jobs", "submit", "training", job_id, *flags_of(options), "--", *program, capture=True)


def describe_job(job_id):
    return json.loads(run_muster("jobs", "describe", job_id, "--json", capture=True))


def jobs():
    return [json.loads(line) for line in run_muster("jobs", "list", "--json", capture=True).splitlines()]


def cancel_job(job_id):
    run_muster("jobs", "cancel", job_id, capture=True)


def tune(program, **options):
    """Runs a study to its end: tune(program, config="study.yaml", job_dir="runs/study"). Returns show_study()."""
    run_muster("tune", *flags_of(options), "--", *program)
    return show_study(options["job_dir"])


def show_study(job_dir):
    """All that is known of a study and its trials."""
    return json.loads(run_muster("tune", "show", job_dir, "--json", capture=True))
