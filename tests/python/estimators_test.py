"""Estimators from Python: inputs, hooks, predictions, exports, errors, signals."""
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import muster
import numpy as np

muster.set_log_level("error")
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=(256, 2)).astype(np.float32)
LABELS = (POINTS[:, 0] > POINTS[:, 1]).astype(np.int64)


def columns():
    return [muster.numeric_column("x"), muster.numeric_column("y")]


def features():
    return {"x": POINTS[:, 0], "y": POINTS[:, 1]}


def from_arrays(context):
    rows = muster.from_numpy(features(), LABELS)
    if context.training:
        rows = rows.shuffle(256, context.seed).shard(context).repeat()
    return rows.batch(32)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def classifier(self, name="run", **config):
        return muster.dnn_classifier(hidden_units=[8], feature_columns=columns(), optimizer="adam",
                                     config=muster.RunConfig(os.path.join(self.folder, name), threads_per_replica=1, **config))


class Inputs(Case):
    def test_arrays_are_learnt_from(self):
        estimator = self.classifier()
        result = estimator.train(from_arrays, max_steps=200)
        self.assertEqual((result.global_step, result.steps), (200, 200))
        metrics = estimator.evaluate(from_arrays)
        self.assertGreater(metrics["accuracy"], 0.9)
        self.assertEqual(metrics["global_step"], 200)

    def test_a_generator_gives_the_weights_of_arrays(self):
        def generator(context):
            for first in itertools.count(0, 32):
                first %= 256
                yield {name: values[first:first + 32] for name, values in features().items()}, LABELS[first:first + 32]

        def in_order(context):
            return muster.from_numpy(features(), LABELS).repeat().batch(32)

        runs = []
        for name, input_fn in (("generator", generator), ("arrays", in_order)):
            estimator = self.classifier(name)
            estimator.train(input_fn, max_steps=5)
            estimator.train(input_fn, max_steps=20)  # A resumed run: the generator starts anew up to its place.
            runs.append(estimator.variables())
        for name, values in runs[0].items():
            np.testing.assert_array_equal(values, runs[1][name], name)

    def test_batches_are_mapped_prefetched_and_iterated(self):
        batches = muster.from_numpy({"x": np.arange(5)}, np.arange(5) * 10).batch(2)
        doubled = batches.map(lambda f, l: ({"x": f["x"] * 2}, l["label"])).prefetch(1)
        self.assertEqual([f["x"].tolist() for f, _ in doubled], [[0, 2], [4, 6], [8]])
        self.assertEqual([l["label"].tolist() for _, l in batches.skip(1).take(1)], [[20, 30]])

    def test_strings_and_ragged_rows_go_both_ways(self):
        words = np.array([["a", "bc"], ["d", "ü"]])
        ragged = muster.Ragged(np.array([1, 2, 3]), [0, 1, 3])
        (given, _), = muster.from_generator(lambda: [{"words": words, "ids": ragged}])
        self.assertEqual(given["words"].tolist(), words.tolist())
        self.assertEqual((given["ids"].values.tolist(), given["ids"].row_splits), ([1, 2, 3], [0, 1, 3]))

    def test_arrays_are_not_copied(self):
        values = np.arange(4, dtype=np.float32)
        (given, _), = muster.from_generator(lambda: [{"x": values}])
        self.assertTrue(np.shares_memory(given["x"], values))


class Hooks(Case):
    def test_methods_are_called_in_their_order(self):
        calls = []

        class Recorder(muster.Hook):
            def begin(self, session):
                calls.append("begin")

            def after_run(self, session):
                calls.append(session.global_step)
                if session.global_step == 3:
                    session.write_scalar("mine", 1.5)
                    session.request_stop("three are enough")

            def end(self, session):
                self.session = session
                calls.append("end")

        hook = Recorder()
        result = self.classifier().train(from_arrays, max_steps=10, hooks=[hook])
        self.assertEqual((calls, result.global_step), (["begin", 1, 2, 3, "end"], 3))
        self.assertEqual(muster.scalars(os.path.join(self.folder, "run"))["mine"][1].tolist(), [1.5])
        with self.assertRaisesRegex(muster.FailedPrecondition, "calls of a hook"):
            hook.session.loss

    def test_what_a_hook_raises_ends_the_run(self):
        class Failing(muster.Hook):
            def after_run(self, session):
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.classifier().train(from_arrays, max_steps=10, hooks=[Failing()])

    def test_other_threads_of_python_run_meanwhile(self):
        seen = threading.Event()

        class Waiting(muster.Hook):
            def end(self, session):
                self.seen = seen.wait(60)

        hook = Waiting()
        thread = threading.Thread(target=seen.set)

        class Starting(muster.Hook):
            def begin(self, session):
                thread.start()

        self.classifier().train(from_arrays, max_steps=2, hooks=[Starting(), hook])
        thread.join()
        self.assertTrue(hook.seen)

    def test_progress_and_curve_are_html(self):
        progress, curve = muster.Progress(20), muster.LiveCurve(every_steps=5)
        self.classifier().train(from_arrays, max_steps=20, hooks=[progress, curve, muster.stop_at_step(15)])
        self.assertIn('<progress value="15" max="20">', progress._repr_html_())
        self.assertEqual([step for step, _ in curve.points], [5, 10, 15])
        self.assertRegex(curve._repr_html_(), "<svg .*loss: .* at step 15")


class Answers(Case):
    def test_predictions_and_exports_agree(self):
        estimator = self.classifier()
        estimator.train(from_arrays, max_steps=50)

        def people(context):
            return muster.from_numpy({"x": POINTS[:3, 0], "y": POINTS[:3, 1]}).batch(3)

        one_by_one = [row["probabilities"][0] for row in estimator.predict(people, predict_keys=["probabilities"])]
        batch, = estimator.predict(people, yield_single_examples=False)
        np.testing.assert_array_equal(np.array(one_by_one), batch["probabilities"])
        folder = os.path.join(self.folder, "export")
        estimator.export_saved_model(folder, muster.json_serving_input(columns()))
        model = muster.SavedModel(folder)
        self.assertIn("serving_default", model.signatures)
        answers = model.predict({"x": POINTS[:3, 0], "y": POINTS[:3, 1]}, signature="predict")
        np.testing.assert_allclose(answers["probabilities"], batch["probabilities"], rtol=1e-5)
        wider = model.predict({"x": [float(x) for x in POINTS[:3, 0]], "y": POINTS[:3, 1]}, signature="predict")
        np.testing.assert_array_equal(wider["probabilities"], answers["probabilities"])
        with self.assertRaisesRegex(muster.InvalidArgument, "y"):
            model.predict({"x": [1.0]})

    def test_train_and_evaluate_exports_at_the_end(self):
        estimator = self.classifier()
        exporter = muster.final_exporter("last", muster.json_serving_input(columns()))
        result = muster.train_and_evaluate(estimator, muster.TrainSpec(from_arrays, 20),
                                           muster.EvalSpec(from_arrays, steps=None, exporters=[exporter]))
        self.assertEqual(result.metrics["global_step"], 20)
        self.assertTrue(os.path.exists(result.exports["last"] / "saved_model.pb"))


class Errors(Case):
    def test_have_our_text_and_a_class_for_their_code(self):
        with self.assertRaisesRegex(muster.NotFound, "checkpoint") as caught:
            self.classifier().evaluate(from_arrays)
        self.assertIsInstance(caught.exception, muster.Error)
        self.assertEqual(caught.exception.code, "NOT_FOUND")
        with self.assertRaisesRegex(muster.InvalidArgument, "batch"):
            list(muster.from_numpy({"x": POINTS}, LABELS[:3]).batch(2))

    def test_arguments_are_checked(self):
        with self.assertRaisesRegex(TypeError, r"RunConfig\(\) has no argument modeldir; it has"):
            muster.RunConfig(modeldir="x")
        with self.assertRaisesRegex(TypeError, r"dnn_classifier\(\): dropout cannot be 'much'"):
            muster.dnn_classifier(hidden_units=[1], feature_columns=columns(), dropout="much")
        with self.assertRaisesRegex(muster.InvalidArgument, "loss_reduction must be sum or mean: all"):
            muster.binary_class_head(loss_reduction="all")

    def test_a_bad_batch_names_what_it_is(self):
        with self.assertRaisesRegex(muster.InvalidArgument, "element 0: a batch is .* a pair of features and labels, not .*list"):
            self.classifier().train(lambda context: [[1, 2, 3]], max_steps=1)

    def test_what_an_input_function_raises_comes_out(self):
        def broken(context):
            yield {"x": POINTS[:2, 0], "y": POINTS[:2, 1]}, LABELS[:2]
            raise RuntimeError("no more of these")

        with self.assertRaisesRegex(muster.Unknown, "element 1: RuntimeError: no more of these"):
            self.classifier().train(broken, max_steps=10)


STOPPED = """
import os, signal, sys
import muster
import numpy as np

class Stop(muster.Hook):
    def after_run(self, session):
        if session.global_step == 7:
            os.kill(os.getpid(), int(sys.argv[2]))

def input_fn(context):
    return muster.from_numpy({"x": np.ones(8, np.float32)}, np.ones(8, np.int64)).repeat().batch(4)

estimator = muster.linear_classifier(feature_columns=[muster.numeric_column("x")], config=muster.RunConfig(sys.argv[1]))
try:
    estimator.train(input_fn, hooks=[Stop()])
except KeyboardInterrupt:
    saved = muster.load_checkpoint(sys.argv[1])["global_step"]
    estimator.train(input_fn, steps=3)
    print("stopped at", saved, "resumed to", muster.load_checkpoint(sys.argv[1])["global_step"])
"""


class Signals(Case):
    def run_stopped(self, signal_number):
        return subprocess.run([sys.executable, "-c", STOPPED, os.path.join(self.folder, "run"), str(int(signal_number))], text=True,
                              capture_output=True)

    def test_control_c_saves_and_is_a_keyboard_interrupt(self):
        done = self.run_stopped(signal.SIGINT)
        self.assertRegex(done.stdout, r"stopped at [7-9] resumed to 1[0-2]", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_termination_saves_and_ends_the_program(self):
        done = self.run_stopped(signal.SIGTERM)
        self.assertEqual(done.returncode, 128 + signal.SIGTERM, done.stderr)
        self.assertGreaterEqual(muster.load_checkpoint(os.path.join(self.folder, "run"))["global_step"], 7)


if __name__ == "__main__":
    unittest.main()
