"""The Python of docs/guides/python.md runs, block after block, and prints what the page shows."""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import tempfile
import unittest

import muster

PAGE = pathlib.Path(__file__).parents[2] / "docs/guides/python.md"
HAS_TORCH = importlib.util.find_spec("torch") is not None
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


class Guide(unittest.TestCase):
    def test_prints_what_it_shows(self):
        muster.set_log_level("off")
        self.addCleanup(muster.set_log_level, "error")
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            blocks = BLOCK.findall(PAGE.read_text())
            names = {}
            for (language, text), (next_language, shown) in zip(blocks, blocks[1:] + [("python", "")]):
                if language != "python" or ("import torch" in text and not HAS_TORCH):
                    continue
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(text, PAGE.name, "exec"), names)
                expected = shown if next_language == "" else ""
                self.assertEqual(output.getvalue(), expected, text)


if __name__ == "__main__":
    unittest.main()
