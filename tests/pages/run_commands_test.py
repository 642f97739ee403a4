"""What tests/pages/run_commands notices of a command that a page shows."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run_commands", os.path.join(HERE, "run_commands"))
run_commands = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_commands", loader))
loader.exec_module(run_commands)


class RunnerTest(unittest.TestCase):
    def failures(self, command, shown=()):
        with tempfile.TemporaryDirectory() as work, contextlib.redirect_stdout(io.StringIO()):
            runner = run_commands.Runner(work, "/nowhere", work, "/nowhere")
            runner.run("page.md:1", command, list(shown))
            return runner.failed

    def test_a_command_that_fails(self):
        self.assertEqual(self.failures("true"), 0)
        self.assertEqual(self.failures("false"), 1)

    def test_a_command_that_fails_before_a_pipe(self):
        self.assertEqual(self.failures("echo a | tail -n 1"), 0)
        self.assertEqual(self.failures("false | tail -n 1"), 1)

    def test_a_command_that_is_shown_to_fail(self):
        self.assertEqual(self.failures("echo 'no such run' >&2; false", ["muster: no such run"]), 0)
        self.assertEqual(self.failures("echo 'no such run' >&2", ["muster: no such run"]), 1)
        self.assertEqual(self.failures("echo 'another' >&2; false", ["muster: no such run"]), 1)


if __name__ == "__main__":
    unittest.main()
