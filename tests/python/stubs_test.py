"""The type stubs have every name of the module, and no others."""
import ast
import inspect
import pathlib
import unittest

from muster import _muster

STUBS = pathlib.Path(__file__).parents[2] / "packaging/python/muster/_muster.pyi"


def members(stubbed):
    return {item.name for item in stubbed.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("__")} | {
        item.target.id for item in stubbed.body if isinstance(item, ast.AnnAssign)}


class Stubs(unittest.TestCase):
    def setUp(self):
        self.stubs = {item.name: item for item in ast.parse(STUBS.read_text()).body if isinstance(item, (ast.FunctionDef, ast.ClassDef))}

    def test_have_every_name(self):
        there = {name for name, value in vars(_muster).items() if not name.startswith("_")}
        self.assertEqual(there, set(self.stubs))

    def test_have_every_member(self):
        for name, stubbed in self.stubs.items():
            kind = getattr(_muster, name)
            if inspect.isclass(kind) and not issubclass(kind, (BaseException, _muster.FeatureKind)):
                there = {member for member in vars(kind) if not member.startswith("_")}
                self.assertEqual(there, members(stubbed), name)


if __name__ == "__main__":
    unittest.main()
