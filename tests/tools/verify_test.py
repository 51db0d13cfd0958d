#!/usr/bin/env python3
"""Tests tools/verify.sh on a small repository with trivial parts."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARTS = """# NAME | FILES | COMMAND
first | a *.md | cat a/file; echo once >> ../first
second | b | cat b/file | grep -q good
"""


class Verify(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.root = self.outside / "tree"
        for name, text in {
            "a/file": "a",
            "b/file": "good",
            "README.md": "r",
            "tools/verify_parts.txt": PARTS,
            "docs/project/other.md": "",
            ".gitignore": "/.deps/",
        }.items():
            self.put(name, text)
        shutil.copy(ROOT / "tools/verify.sh", self.root / "tools")
        self.git("init", "-q")
        self.commit()

    def put(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def git(self, *arguments):
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "Change")

    def verify(self, *arguments, status=0):
        run = subprocess.run(
            [self.root / "tools/verify.sh", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout

    def row(self, name):
        return next(line for line in self.verify("--status").splitlines() if line.startswith(name))

    def runs_of_first(self):
        file = self.outside / "first"
        return len(file.read_text().split()) if file.exists() else 0

    def test_a_part_that_passed_is_not_run_again(self):
        self.assertIn("not run", self.row("first"))
        self.verify()
        head = self.git("rev-parse", "--short=12", "HEAD")
        for name in ("first", "second"):
            self.assertRegex(self.row(name), rf"^{name} +passed +{head} ")
        self.assertIn("first passed before", self.verify())
        self.assertEqual(self.runs_of_first(), 1)

    def test_a_part_runs_again_after_its_files_changed(self):
        self.verify()
        self.put("b/file", "good, too")
        self.commit()
        self.assertIn("older files", self.row("second"))
        self.assertNotIn("older files", self.row("first"))
        self.verify()
        self.assertEqual(self.runs_of_first(), 1)
        self.assertNotIn("older files", self.row("second"))
        self.put("a/file", "new")
        self.commit()
        self.verify()
        self.assertEqual(self.runs_of_first(), 2)

    def test_a_part_that_failed_has_a_log_and_runs_again(self):
        self.put("b/file", "bad")
        self.commit()
        self.verify(status=1)
        self.assertRegex(self.row("second"), "^second +failed ")
        self.assertRegex(self.row("first"), "^first +passed ")
        self.assertTrue((self.root / ".deps/verify/second.log").exists())
        self.assertIn("second failed", self.verify("--part", "second", status=1))

    def test_files_that_are_not_committed_have_no_result(self):
        self.put("a/file", "new")
        self.assertIn("commit the files", self.verify("--part", "first", status=2))
        self.assertIn("not run", self.row("first"))
        self.verify("--part", "second")

    def test_files_that_change_during_the_run_have_no_result(self):
        self.put("tools/verify_parts.txt", "only | a | echo more >> a/file; git add a/file\n")
        self.commit()
        self.assertIn("has no result", self.verify(status=1))
        self.assertIn("not run", self.row("only"))

    def test_the_page_has_the_results_and_changes_none(self):
        self.verify()
        self.verify("--write")
        page = (self.root / "docs/project/verification.md").read_text()
        self.assertRegex(page, r"\| first \| passed \| [0-9a-f]{12} \| \d{4}-\d\d-\d\d \| \d+ \| \d+ x ")
        self.commit()
        self.assertIn("first passed before", self.verify())

    def test_the_page_has_the_results_of_other_machines(self):
        self.verify()
        self.verify("--write")
        self.commit()
        shutil.rmtree(self.root / ".deps")
        self.assertRegex(self.row("first"), "^first +passed ")
        self.assertIn("first passed before", self.verify())
        self.put("b/file", "good, too")
        self.commit()
        self.assertIn("older files", self.row("second"))
        self.verify("--write")
        page = (self.root / "docs/project/verification.md").read_text()
        self.assertRegex(page, r"\| first \| passed \| [0-9a-f]{12} ")
        self.assertRegex(page, r"\| second \| passed \| [0-9a-f]{12} ")

    def test_a_result_of_an_unknown_commit_is_not_used(self):
        self.put("docs/project/verification.md", "| first | passed | 0123456789ab | 2026-01-01 | 1 | x |\n")
        self.commit()
        self.verify()
        self.assertEqual(self.runs_of_first(), 1)

    def test_unknown_parts_and_arguments_are_wrong_usage(self):
        self.assertIn("there is no part third", self.verify("--part", "third", status=2))
        self.verify("--all", status=2)
        self.verify("--part", status=2)


if __name__ == "__main__":
    unittest.main()
