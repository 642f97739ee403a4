"""`muster console` as a process, and runs for it to show."""
import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

from webdriver import wait_for


class Console:
    """Runs until the end of the `with`."""

    def __init__(self, program, *arguments):
        self._log = tempfile.NamedTemporaryFile(mode="r", suffix=".log")
        self._process = subprocess.Popen([program, "console", "--port", "0", *arguments],
                                         stdout=subprocess.DEVNULL, stderr=open(self._log.name, "w"))
        self.url = wait_for(self._address, "the console to start")

    def _address(self):
        found = re.search(r"the console is at (\S+)/", open(self._log.name).read())
        if not found and self._process.poll() is not None:
            raise AssertionError("the console ended: " + open(self._log.name).read())
        return found and found.group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(20)
        assert status == 0, "the console ended with %d: %s" % (status, open(self._log.name).read())

    @property
    def pid(self):
        return self._process.pid

    def ask(self, path, headers=None, body=None, method=None):
        """(status, body) of a request, as a program that is no browser makes it."""
        request = urllib.request.Request(self.url + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path):
        status, body = self.ask("/api/" + path)
        assert status == 200, body
        return json.loads(body)


def train_census(program, folder, data, steps, batch=40, seed=1):
    subprocess.run([program, "--synthetic", data, "--job-dir", folder, "--train-steps", str(steps), "--eval-steps", "5",
                    "--train-batch-size", str(batch), "--seed", str(seed)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def submit_job(program, jobs, name, script):
    """A job that runs a shell script."""
    subprocess.run([program, "jobs", "submit", "training", name, "--jobs-dir", jobs, "--labels", "made=here", "--", "/bin/sh",
                    "-c", script, "sh"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_study(folder, trials):
    """A study that is over, as `muster tune` leaves it."""
    os.makedirs(os.path.join(folder, "study"))
    parameters = [{"parameterName": "rate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 0.1,
                   "scaleType": "UNIT_LOG_SCALE"},
                  {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["<b>a</b>", "b"]}]
    study = {"hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "auc", "maxTrials": trials,
                                 "params": parameters}, "command": ["/bin/true"], "seed": 0}
    with open(os.path.join(folder, "study", "study.json"), "w") as file:
        json.dump(study, file)
    for trial in range(1, trials + 1):
        curve = [{"trainingStep": str(step), "objectiveValue": 0.5 + 0.01 * trial + 0.001 * step} for step in (10, 20)]
        one = {"trialId": str(trial), "state": "SUCCEEDED", "otherMetrics": {}, "startTime": 1.0, "endTime": 2.0 + trial,
               "hyperparameters": {"rate": str(0.001 * trial), "kind": "b" if trial % 2 else "<b>a</b>"},
               "finalMetric": curve[-1], "allMetrics": curve}
        if trial % 3 == 0:
            one["isTrialStoppedEarly"] = True
        with open(os.path.join(folder, "study", "%d.json" % trial), "w") as file:
            json.dump(one, file)


class Server:
    """`muster serve` of a model until the end of the `with`."""

    def __init__(self, program, model):
        self._log = tempfile.NamedTemporaryFile(mode="r", suffix=".log")
        self._process = subprocess.Popen([program, "serve", model, "--port", "0", "--rest-api-port", "auto", "--address",
                                          "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=open(self._log.name, "w"))
        self.address = wait_for(self._find, "the server to start")

    def _find(self):
        found = re.search(r"REST API at:127.0.0.1:(\d+)", open(self._log.name).read())
        if not found and self._process.poll() is not None:
            raise AssertionError("the server ended: " + open(self._log.name).read())
        return found and "127.0.0.1:" + found.group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
