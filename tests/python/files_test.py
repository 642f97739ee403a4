"""Records, event files and checkpoints as Python has them."""
import os
import tempfile
import unittest

import muster
import numpy as np

muster.set_log_level("error")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.records = os.path.join(self.folder, "x.tfrecords")

    def test_records_are_written_and_read(self):
        with muster.RecordWriter(self.records) as writer:
            writer.append(b"alpha")
            writer.append(b"")
        self.assertEqual(list(muster.RecordReader(self.records)), [b"alpha", b""])

    def test_a_file_that_is_not_finished_leaves_no_trace(self):
        with self.assertRaises(ZeroDivisionError):
            with muster.RecordWriter(self.records) as writer:
                writer.append(b"alpha")
                raise ZeroDivisionError
        self.assertFalse(os.path.exists(self.records))

    def test_damage_is_named_with_its_place(self):
        with muster.RecordWriter(self.records) as writer:
            writer.append(b"alpha")
        with open(self.records, "r+b") as file:
            file.seek(13)
            file.write(b"?")
        with self.assertRaisesRegex(muster.DataLoss, "x.tfrecords.*record 0"):
            list(muster.RecordReader(self.records))

    def test_csv_rows_name_the_line_of_a_mistake(self):
        path = os.path.join(self.folder, "x.csv")
        with open(path, "w") as file:
            file.write("n,word,label\n1,a,no\n,b,yes\nthree,c,no\n")
        rows = muster.csv_rows(path, skip_header_lines=1)
        parse = dict(fields=dict(n=7, word="", label=None), label="label", label_vocabulary=["no", "yes"])
        (features, labels), = rows.take(2).batch(5).parse_csv(**parse)
        self.assertEqual((features["n"].tolist(), features["word"].tolist()), ([1, 7], ["a", "b"]))
        self.assertEqual(labels["label"].tolist(), [[0], [1]])
        with self.assertRaisesRegex(muster.InvalidArgument, "x.csv line 4"):
            list(rows.batch(5).parse_csv(**parse))

    def test_a_checkpoint_is_arrays_over_its_file(self):
        estimator = muster.linear_classifier(feature_columns=[muster.numeric_column("x")],
                                             config=muster.RunConfig(os.path.join(self.folder, "run"), save_summary_steps=1))
        estimator.train(lambda context: muster.from_numpy({"x": np.ones(4, np.float32)}, np.ones(4, np.int64)).repeat().batch(2),
                        max_steps=3)
        tensors = muster.load_checkpoint(os.path.join(self.folder, "run"))
        weights = tensors["linear/linear_model/x/weights"]
        self.assertEqual((weights.dtype, weights.shape, weights.flags.writeable), (np.float32, (1, 1), False))
        self.assertFalse(weights.flags.owndata)
        self.assertNotEqual(weights.item(), 0)
        self.assertEqual(tensors["global_step"], 3)
        np.testing.assert_array_equal(weights, estimator.variables()["linear/linear_model/x/weights"])
        self.assertEqual(muster.latest_checkpoint(os.path.join(self.folder, "run")), estimator.latest_checkpoint())
        steps, losses = muster.scalars(os.path.join(self.folder, "run"))["loss"]
        self.assertEqual(steps.tolist(), [1, 2, 3])
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main()
