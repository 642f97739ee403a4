"""Which commit scripts/last-landing takes for the last landing, in repositories of a few commits."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/last-landing")
HOUR = 3600


class LastLanding(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.folder.name, "GIT_CONFIG_NOSYSTEM": "1"}
        for who in ("AUTHOR", "COMMITTER"):
            self.environment.update({"GIT_%s_NAME" % who: "A", "GIT_%s_EMAIL" % who: "a@b"})
        self.git("init", "-q", "-b", "main")
        os.makedirs(os.path.join(self.folder.name, "scripts"))
        shutil.copy(SCRIPT, os.path.join(self.folder.name, "scripts/last-landing"))

    def run_in_it(self, *words, **more):
        return subprocess.run(words, cwd=self.folder.name, env={**self.environment, **more}, check=True, text=True,
                              capture_output=True).stdout.strip()

    def git(self, *words, **more):
        return self.run_in_it("git", *words, **more)

    def commit(self, hours):
        self.git("commit", "-q", "--allow-empty", "-m", "at %g" % hours,
                 GIT_COMMITTER_DATE="%d +0000" % (1_800_000_000 + hours * HOUR))
        return self.git("rev-parse", "HEAD")

    def landing(self, **more):
        return self.run_in_it("bash", "scripts/last-landing", **more)

    def test_commits_that_land_together_have_the_base_of_the_first(self):
        self.commit(0)
        old = self.commit(10)
        for minutes in (0, 20, 50):
            self.commit(20 + minutes / 60)
        self.assertEqual(self.landing(), old)

    def test_the_base_of_a_commit_alone_is_the_one_before(self):
        self.commit(0)
        old = self.commit(10)
        self.commit(20)
        self.assertEqual(self.landing(), old)

    def test_a_young_history_begins_with_its_first_commit(self):
        first = self.commit(0)
        self.assertEqual(self.landing(), first)
        self.commit(1)
        self.assertEqual(self.landing(), first)

    def test_commits_of_a_clone_have_landed_nowhere(self):
        self.commit(0)
        landed = self.commit(10)
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.commit(30)
        self.commit(40)
        self.assertEqual(self.landing(), landed)
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.assertEqual(self.git("show", "-s", "--format=%s", self.landing()), "at 30")

    def test_it_can_be_told(self):
        self.commit(0)
        self.assertEqual(self.landing(MUSTER_TIDY_BASE="v1"), "v1")
        self.commit(2)
        middle = self.commit(5)
        self.commit(6)
        self.assertEqual(self.landing(MUSTER_LANDING_HOURS="0"), middle)


if __name__ == "__main__":
    unittest.main()
