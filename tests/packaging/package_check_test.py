#!/usr/bin/env python3
"""Packages with a planted fault are refused by package_check, those without one are not; lists are made by sbom.py."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TIME = 1700000000
DOC = "usr/share/doc/muster"
LIST = f"{DOC}/sbom.spdx.json"


class PackageCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.environment = {**os.environ, "SOURCE_DATE_EPOCH": str(TIME)}
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.root = pathlib.Path(cls.shared.name, "root")
        (cls.root / "usr/bin").mkdir(parents=True)
        (cls.root / DOC).mkdir(parents=True)
        shutil.copy("/bin/true", cls.root / "usr/bin/muster")
        (cls.root / DOC / "copyright").write_text("License: Apache-2.0\n")
        cls.make_list(cls)

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name, "root")
        shutil.copytree(type(self).root, self.root)
        self.depends = "libc6"
        self.environment = dict(type(self).environment)

    def make_list(self):
        subprocess.run([HERE.parent.parent / "packaging/sbom.py", self.root, "--name", "muster", "--version", "1.0",
                        "--output", LIST], env=self.environment, check=True)

    def edit(self, change):
        path = self.root / LIST
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    def check(self, *options, owner="--root-owner-group", modes="u=rwX,go=rX"):
        control = self.root / "DEBIAN"
        control.mkdir(exist_ok=True)
        (control / "control").write_text(
            f"Package: muster\nVersion: 1.0\nArchitecture: all\nMaintainer: tests\nDepends: {self.depends}\nDescription: a test\n")
        subprocess.run(["chmod", "-R", modes, self.root], check=True)
        subprocess.run(["find", self.root, "-exec", "touch", "--no-dereference", f"--date=@{TIME}", "{}", "+"], check=True)
        subprocess.run(["chmod", "u=rwx,go=rx", self.root, control], check=True)
        package = pathlib.Path(self.folder.name, "muster.deb")
        # dpkg-deb only lowers times, to that of the environment.
        subprocess.run(["dpkg-deb", "-Znone", "--build", *([owner] if owner else []), self.root, package], env=self.environment,
                       check=True, capture_output=True)
        done = subprocess.run([HERE / "package_check", *options, package], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else done.stderr

    def assert_refused(self, words, *options, **how):
        self.assertIn(words, self.check(*options, **how))

    def test_accepts_what_the_list_says(self):
        self.assertRegex(self.check("--no-path", "/nowhere/at/all"), "2 files, 1 programs and libraries, 1 packages of Debian")

    def test_the_same_files_make_the_same_list(self):
        before = (self.root / LIST).read_bytes()
        self.make_list()
        self.assertEqual((self.root / LIST).read_bytes(), before)

    def test_refuses_a_file_that_changed(self):
        (self.root / DOC / "copyright").write_text("License: BSD-3-Clause\n")
        self.assert_refused("SHA1 of ./usr/share/doc/muster/copyright is another")

    def test_refuses_a_file_that_is_not_listed(self):
        (self.root / "usr/bin/more").write_text("more")
        self.assert_refused("not listed: ./usr/bin/more")

    def test_refuses_a_list_of_files_that_are_not_there(self):
        (self.root / DOC / "copyright").unlink()
        self.assert_refused("listed, and not there: ./usr/share/doc/muster/copyright")

    def test_refuses_a_verification_code_of_other_files(self):
        self.edit(lambda document: document["packages"][0]["packageVerificationCode"].update(packageVerificationCodeValue="0" * 40))
        self.assert_refused("packageVerificationCode should be")

    def test_refuses_a_dependency_that_is_not_listed(self):
        self.depends = "libc6, zlib1g (>= 1:1.1)"
        self.assert_refused("depends on zlib1g, which its list does not name")

    def test_refuses_a_dependency_on_a_newer_version_than_listed(self):
        self.depends = "libc6 (>= 99)"
        self.assert_refused("but the package depends on libc6 (>= 99)")

    def test_refuses_a_version_that_is_not_installed(self):
        self.edit(lambda document: document["packages"][1].update(versionInfo="99.0"))
        self.assert_refused("libc6 is not installed in version 99.0")

    def test_refuses_programs_that_are_linked_with_nothing_listed(self):
        self.edit(lambda document: document.update(
            relationships=[one for one in document["relationships"] if one["relationshipType"] != "DYNAMIC_LINK"]))
        self.assert_refused("./usr/bin/muster are linked with no package of the list")

    def test_refuses_a_list_of_another_package(self):
        self.edit(lambda document: document["packages"][0].update(name="other"))
        self.assert_refused("the list is of name other")

    def test_refuses_relationships_with_nothing(self):
        self.edit(lambda document: document["relationships"][0].update(relatedSpdxElement="SPDXRef-Gone"))
        self.assert_refused("a relationship names SPDXRef-Gone, which is not there")

    def test_refuses_other_versions_of_the_format(self):
        self.edit(lambda document: document.update(spdxVersion="SPDX-2.1"))
        self.assert_refused("spdxVersion should be SPDX-2.3")

    def test_refuses_a_path_of_the_build(self):
        (self.root / DOC / "copyright").write_text("made in /home/me/muster\n")
        self.make_list()
        self.assert_refused("./usr/share/doc/muster/copyright holds the path /home/me", "--no-path", "/home/me")

    def test_refuses_modes_of_a_private_umask(self):
        self.assert_refused("has mode 7", modes="u=rwX,go=")

    def test_refuses_another_time_than_that_of_the_list(self):
        self.environment["SOURCE_DATE_EPOCH"] = str(TIME - 1000)
        self.assert_refused("their list of another time")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to give files to others")
    def test_refuses_files_of_others(self):
        os.chown(self.root / "usr/bin/muster", 1000, 1000)
        self.assert_refused("usr/bin/muster belongs to 1000:1000", owner=None)


if __name__ == "__main__":
    sys.exit(unittest.main())
