"""The census program in Python against the one in C++: the same weights to the bit."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import muster

BIN = os.environ["MUSTER_BIN"]
PROGRAM = pathlib.Path(__file__).parents[2] / "packaging/python/examples/census.py"


class Census(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.train, self.test = muster.write_synthetic_census(self.folder, train=2000, test=300)

    def run_program(self, name, *program, flags=()):
        job = os.path.join(self.folder, name)
        done = subprocess.run([*program, "--train-files", self.train, "--eval-files", self.test, "--job-dir", job, "--train-steps",
                               "60", "--seed", "3", *flags], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = subprocess.run([os.path.join(BIN, "muster"), "checkpoint", "hash", job], check=True, text=True, capture_output=True)
        return shown.stdout[:64], done.stdout, done.stderr

    def assert_same(self, **how):
        ours, metrics, log = self.run_program("python", sys.executable, PROGRAM, **how)
        theirs, their_metrics, _ = self.run_program("cpp", os.path.join(BIN, "census"), **how)
        self.assertEqual(ours, theirs, log)
        self.assertEqual(metrics, their_metrics)
        self.assertRegex(metrics, r"auc = 0\.[6-9]")

    def test_has_the_weights_and_metrics_of_the_cpp_program(self):
        self.assert_same()

    def test_has_them_with_replicas(self):
        self.assert_same(flags=["--replicas", "2", "--threads-per-replica", "1"])

    def test_is_short(self):
        lines = [line for line in PROGRAM.read_text().splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 40)
        self.assertTrue(re.match('"""', lines[0]))


if __name__ == "__main__":
    unittest.main()
