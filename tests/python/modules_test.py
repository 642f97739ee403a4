"""A torch.nn.Module that muster trains; skipped where there is no python3-torch."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import muster
import numpy as np

muster.set_log_level("error")
PROGRAM = pathlib.Path(__file__).parents[2] / "packaging/python/examples/mnist.py"
HAS_TORCH = importlib.util.find_spec("torch") is not None


@unittest.skipUnless(HAS_TORCH, "python3-torch is not installed")
class Modules(unittest.TestCase):
    def test_a_module_is_trained_and_gets_its_values_back(self):
        import torch
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        points = np.random.default_rng(0).normal(size=(256, 2)).astype(np.float32)
        labels = (points[:, :1] > points[:, 1:]).astype(np.int64)

        def input_fn(context):
            rows = muster.from_numpy({"input": points}, labels)
            return rows.shuffle(256, context.seed).repeat().batch(32) if context.training else rows.batch(256)

        with tempfile.TemporaryDirectory() as folder:
            estimator = muster.Estimator(model=muster.torch_model(module), head=muster.binary_class_head(),
                                         optimizer=muster.adam(learning_rate=0.01),
                                         config=muster.RunConfig(os.path.join(folder, "run"), threads_per_replica=1))
            estimator.train(input_fn, max_steps=150)
            self.assertGreater(estimator.evaluate(input_fn)["accuracy"], 0.9)
            batch, = estimator.predict(input_fn, predict_keys=["logits"], yield_single_examples=False)
            trained = muster.load_trained(module, estimator.model_dir).eval()
        with torch.no_grad():
            logits = trained(torch.from_numpy(points)).numpy()
        np.testing.assert_allclose(batch["logits"], logits, rtol=1e-5, atol=1e-6)

    def test_the_example_learns_digits_from_records(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in (["synth", "mnist", "--output", "images", "--train", "200", "--test", "20"],
                          ["write", "mnist", "--input", "images", "--output", "records"]):
                subprocess.run([os.path.join(os.environ["MUSTER_BIN"], "muster"), "records", *words], cwd=folder, check=True,
                               capture_output=True)
            done = subprocess.run([sys.executable, PROGRAM, "--train-files", "records/train.tfrecords", "--eval-files",
                                   "records/eval.tfrecords", "--job-dir", "job", "--train-steps", "4"],
                                  cwd=folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("global_step = 4", done.stdout)


if __name__ == "__main__":
    unittest.main()
