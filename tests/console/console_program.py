"""`muster console` as a process, and runs for it to show."""
import functools
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import urllib.error
import urllib.request
import zlib

import numpy

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


def train_census(program, folder, data, steps, batch=40, seed=1, more=()):
    subprocess.run([program, "--synthetic", data, "--job-dir", folder, "--train-steps", str(steps), "--eval-steps", "5",
                    "--train-batch-size", str(batch), "--seed", str(seed), *more],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def submit_job(program, jobs, name, script):
    """A job that runs a shell script."""
    subprocess.run([program, "jobs", "submit", "training", name, "--jobs-dir", jobs, "--labels", "made=here", "--", "/bin/sh",
                    "-c", script, "sh"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class ClusterJob:
    """A master, a worker and a parameter server that train census, each as it comes, until the end of the `with`."""

    def __init__(self, work, name):
        self._work, self._name, self._folder = work, name, os.path.join(work["folder"], name)
        machines = [word for task in ("master", "worker", "parameter-server") for word in ("--%s-machine-type" % task, "standard")]
        self._jobs("submit", "training", name, "--scale-tier", "custom", *machines, "--worker-count", "1",
                   "--parameter-server-count", "1", "--job-dir", self._folder, "--", work["census"], "--train-files",
                   os.path.join(work["data"], "adult.data.csv"), "--eval-files", os.path.join(work["data"], "adult.test.csv"),
                   "--train-steps", "1000000", "--eval-steps", "1", "--sync=false", "--save-checkpoints-steps", "1000000")

    def _jobs(self, *words):
        subprocess.run([self._work["muster"], "jobs", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, MUSTER_JOBS_DIR=self._work["jobs"]))

    def kill(self, task):
        """Ends a task without a last word."""
        wanted = b'"type":"%s"' % task.encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % entry, "rb") as file:
                    variables = file.read().replace(b" ", b"")
                with open("/proc/%s/cmdline" % entry, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue  # Gone meanwhile, or another user's.
            if wanted in variables and self._folder.encode() in words:
                os.kill(int(entry), signal.SIGKILL)
                return
        raise AssertionError("there is no %s of %s" % (task, self._name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._jobs("cancel", self._name)


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def _crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked_crc(data):
    crc = _crc(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@functools.lru_cache
def _header_of(size):
    length = struct.pack("<Q", size)
    return length + struct.pack("<I", _masked_crc(length))


def record_of(data):
    """A record of an event file."""
    return _header_of(len(data)) + data + struct.pack("<I", _masked_crc(data))


def varint_of(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field_of(number, data):
    """A length-delimited field of protobuf."""
    return varint_of(number << 3 | 2) + varint_of(len(data)) + data


def event_of(step, *values):
    """An event with values of a summary, each a tag and a number, or a tag and the bytes of its other fields."""
    summary = b"".join(field_of(1, field_of(1, tag.encode()) +
                                (value if isinstance(value, bytes) else b"\x15" + struct.pack("<f", value)))
                       for tag, value in values)
    return b"\x09" + struct.pack("<d", 1.7e9 + step) + b"\x10" + varint_of(step) + field_of(5, summary)


def write_events(folder, events):
    os.makedirs(folder)
    with open(os.path.join(folder, "events.out.tfevents.1.test"), "wb") as file:
        file.write(b"".join(record_of(event) for event in events))


def write_run(folder, curves, record=None):
    """A run with curves, {tag: {step: value}}, those of an evaluation as "eval/TAG", and a record as muster.json has it."""
    of_folders = {}
    for tag, points in curves.items():
        name, _, own = tag.rpartition("/")
        place = of_folders.setdefault(name if name.startswith("eval") else "", [])
        place += [(step, own if name.startswith("eval") else tag, value) for step, value in points.items()]
    os.makedirs(folder, exist_ok=True)
    if record is not None:
        with open(os.path.join(folder, "muster.json"), "w") as file:
            json.dump({"runs": [record], "version": 1}, file)
    for name, points in of_folders.items():
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, "events.out.tfevents.1.test"), "wb") as file:
            file.write(b"".join(record_of(event_of(step, (tag, value))) for step, tag, value in sorted(points)))


def _masked_crcs(rows):
    """Of every row of a matrix of bytes."""
    table = numpy.array(_CRC, dtype=numpy.uint32)
    crc = numpy.full(len(rows), 0xFFFFFFFF, dtype=numpy.uint32)
    for column in rows.T:
        crc = (crc >> 8) ^ table[(crc ^ column) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15) | (crc << 17)) + numpy.uint32(0xA282EAD8)


def _records_of_scalars(steps, names):
    """Records of one scalar each, as many bytes of a varint as the first step has."""
    sample = event_of(int(steps[0]), (names[0], 0.0))
    rows = numpy.tile(numpy.frombuffer(sample, numpy.uint8), (len(steps), 1))
    rows[:, 1:9] = (1.7e9 + 0.01 * steps).astype("<f8").view(numpy.uint8).reshape(-1, 8)
    digits = len(varint_of(int(steps[0])))
    for i in range(digits):
        rows[:, 10 + i] = (steps >> 7 * i) & 0x7F | (0x80 if i + 1 < digits else 0)
    texts = numpy.array([list(name.encode()) for name in names], dtype=numpy.uint8)
    rows[:, -9:-5] = texts[steps % len(names)]
    values = numpy.exp(-steps / 3e6) * (1 + steps % len(names)) + 0.1 * numpy.sin(steps)
    rows[:, -4:] = values.astype("<f4").view(numpy.uint8).reshape(-1, 4)
    header = numpy.tile(numpy.frombuffer(_header_of(len(sample)), numpy.uint8), (len(steps), 1))
    footer = _masked_crcs(rows).astype("<u4").view(numpy.uint8).reshape(-1, 4)
    return numpy.hstack((header, rows, footer)).tobytes()


def write_long_run(folder, points, tags=1):
    """A point for every step, of the tags (loss, los1, los2, ...) in turn."""
    names = ["loss"] + ["los%x" % tag for tag in range(1, tags)]
    ends = [end for end in (1 << 7, 1 << 14, 1 << 21, 1 << 28) if end < points] + [points]
    os.makedirs(folder)
    with open(os.path.join(folder, "events.out.tfevents.1.test"), "wb") as file:
        for begin, end in zip([0] + ends, ends):
            for first in range(begin, end, 1 << 18):
                file.write(_records_of_scalars(numpy.arange(first, min(end, first + (1 << 18))), names))


def png_of_one_red_pixel():
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b""))


def write_media_run(folder):
    """A run with an image, a histogram, two texts and a graph."""
    numbers = [struct.pack("<3d", *three) for three in ((-1, 0, 1), (5, 2, 5))]
    histogram = b"".join(bytes([field << 3 | 1]) + struct.pack("<d", value) for field, value in ((1, -2), (2, 1), (3, 12)))
    histogram += field_of(6, numbers[0]) + field_of(7, numbers[1])
    image = b"\x08\x01\x10\x01\x18\x03" + field_of(4, png_of_one_red_pixel())

    def text(words):  # A tensor of type DT_STRING, shown by the page of texts.
        return field_of(9, field_of(1, field_of(1, b"text"))) + field_of(8, b"\x08\x07" + field_of(2, b"") + field_of(8, words))
    nodes = (field_of(1, b"a") + field_of(2, b"Const"), field_of(1, b"b") + field_of(2, b"Relu") + field_of(3, b"a"))
    graph = b"\x09" + struct.pack("<d", 1.7e9) + field_of(4, b"".join(field_of(1, node) for node in nodes))
    write_events(folder, [graph, event_of(1, ("digit", field_of(4, image)), ("note", text(b"first"))),
                          event_of(2, ("weights", field_of(5, histogram)), ("note", text(b"<b>second</b>")))])


def write_pr_run(folder):
    """A run whose evaluation has a precision-recall curve and a confusion matrix, and whose weights become wider."""
    def histogram(width):
        fields = b"".join(bytes([field << 3 | 1]) + struct.pack("<d", value) for field, value in ((1, -width), (2, width), (3, 4)))
        return field_of(5, fields + field_of(6, struct.pack("<3d", -width, 0, width)) + field_of(7, struct.pack("<3d", 0, 2, 2)))

    values = (8, 4, 0, 6, 1, 0, 0, 5, 6, 0, 4, 8, 0.5714, 0.8, 1, 1, 0.5, 0)
    shape = field_of(2, field_of(2, b"\x08\x06") + field_of(2, b"\x08\x03"))
    curve = field_of(9, field_of(1, field_of(1, b"pr_curves"))) + field_of(8, b"\x08\x01" + shape + field_of(5, struct.pack("<18f", *values)))
    table = field_of(9, field_of(1, field_of(1, b"text"))) + field_of(8, b"\x08\x07" + field_of(2, b"") + field_of(
        8, b"| label | cat | <b>dog</b> |\n| --- | --- | --- |\n| cat | 9 | 1 |\n| <b>dog</b> | 2 | 8 |"))
    write_events(folder, [event_of(step, ("weights", histogram(float(step)))) for step in (1, 2, 3)])
    write_events(os.path.join(folder, "eval"), [event_of(3, ("auc_pr", curve), ("confusion/table", table))])


def write_study(folder, trials, rungs=(), goals=()):
    """A study that is over, as `muster tune` leaves it; with rungs, a trial after the other ends at each of them, the first
    with the best metric; with goals beside the first, metrics to be minimized that grow with the number of the trial, but for
    every third."""
    os.makedirs(os.path.join(folder, "study"))
    parameters = [{"parameterName": "rate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 0.1,
                   "scaleType": "UNIT_LOG_SCALE"},
                  {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["<b>a</b>", "b"]}]
    halving = {"trialStopping": {"rule": "HYPERBAND", "minSteps": rungs[0]}} if rungs else {}
    metric = {"goal": "MAXIMIZE", "hyperparameterMetricTag": "auc"}
    if goals:
        metric = {"metrics": [{"metric": "auc"}, *({"metric": goal, "goal": "MINIMIZE"} for goal in goals)]}
    study = {"hyperparameters": {**halving, **metric, "maxTrials": trials,
                                 "params": parameters}, "command": ["/bin/true"], "seed": 0}
    with open(os.path.join(folder, "study", "study.json"), "w") as file:
        json.dump(study, file)
    for trial in range(1, trials + 1):
        curve = [{"trainingStep": str(step), "objectiveValue": 0.5 + 0.01 * trial + 0.001 * step} for step in (10, 20)]
        one = {"trialId": str(trial), "state": "SUCCEEDED", "otherMetrics": {}, "startTime": 1.0, "endTime": 2.0 + trial,
               "hyperparameters": {"rate": str(0.001 * trial), "kind": "b" if trial % 2 else "<b>a</b>"},
               "finalMetric": curve[-1], "allMetrics": curve}
        one["otherMetrics"] = {goal: 100.0 if trial % 3 == 0 else float(trial) for goal in goals}
        if rungs:
            last = rungs[trial % len(rungs)]
            one["finalMetric"] = {"trainingStep": str(last), "objectiveValue": 0.9 - 0.001 * last + 0.01 * trial}
            one["rungs"] = [{"run": str(len(rungs) * trial + i), "maxSteps": str(steps), "metric": dict(one["finalMetric"], trainingStep=str(steps))}
                            for i, steps in enumerate(rungs) if steps <= last]
        elif trial % 3 == 0:
            one["isTrialStoppedEarly"] = True
        text = json.dumps(one)[:-1] + ',"crc32c":"%s"}\n'
        with open(os.path.join(folder, "study", "%d.json" % trial), "w") as file:
            file.write(text % ("%08x" % _crc((text % ("0" * 8)).encode())))


def keep_versions(program, folder, model, exports):
    """A model with the newest export of each folder as versions v1, v2, ..."""
    def run(*arguments):
        subprocess.run([program, *arguments, "--models-dir", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("models", "create", model)
    for number, export in enumerate(exports, 1):
        newest = os.path.join(export, max(os.listdir(export)))
        run("versions", "create", "v%d" % number, "--model", model, "--origin", newest)


class Server:
    """`muster serve` of models until the end of the `with`."""

    def __init__(self, program, *models):
        self._log = tempfile.NamedTemporaryFile(mode="r", suffix=".log")
        self._process = subprocess.Popen([program, "serve", *models, "--port", "0", "--rest-api-port", "auto", "--address",
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
