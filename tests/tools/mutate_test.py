#!/usr/bin/env python3
"""Tests tools/mutate.sh on a small tree, whose build and test program are scripts."""

import fcntl
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MUTANT = """[{name}]
what: Two instead of one.
suites: test_a:A.*
file: {file}
- {old}
+ {new}
"""
# "Compiles" the template into the cache. Fails if the template or the built source is not 1.
PROGRAM = """#!/bin/sh
case $1 in --gtest_list_tests) printf 'A.\\n  B\\n'; exit ;; esac
template=$(cat "${JITSTEP_TEMPLATES:-build/templates}/a.cuh")
key=$JITSTEP_CACHE_DIR/$(echo "$template" | cksum | cut -d' ' -f1)
[ -e "$key" ] || { echo kernel >> ../log; touch "$key"; }
[ "$template" = 1 ] && [ "$(cat build/src/a.cpp)" = 1 ]
"""
BUILD = """#!/bin/sh
cd "$(dirname "$0")/.."
echo build >> ../log
mkdir -p build/tests
cp -r templates src build
cp tests/program build/tests/test_a
"""


class Mutate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.root = self.outside / "tree"
        table = MUTANT.format(name="of_a_template", file="templates/a.cuh", old="1", new="2")
        table += MUTANT.format(name="of_a_source", file="src/a.cpp", old="1", new="2")
        for name, text in {
            "templates/a.cuh": "1",
            "src/a.cpp": "1",
            "include/a.h": "1",
            "src/B.cpp": "",
            "src/Zz.cpp": "",
            ".deps/venv": "",
            ".gitignore": "/.deps",
            "tools/setup.sh": "#!/bin/sh\n",
            "tools/build.sh": BUILD,
            "tests/program": PROGRAM,
            "tests/a/a_test.cpp": "",
            "tools/old.cpp": "",
            "tests/mutants/all.mutants": table,
        }.items():
            self.put(name, text)
        for name in ("mutate.sh", "mutants.py"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        subprocess.run(["git", "add", "-A"], cwd=self.root, check=True)

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def mutate(self, *arguments, status=0):
        (self.outside / "log").write_text("")
        run = subprocess.run(
            [self.root / "tools/mutate.sh", "--copy", self.outside / "copy", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout

    def log(self):
        return (self.outside / "log").read_text().split()

    def test_a_mutant_of_templates_needs_no_build(self):
        self.assertRegex(self.mutate("of_a_template"), r"of_a_template +yes")
        self.assertEqual(self.log(), ["build", "kernel", "kernel"])

    def test_a_mutant_of_sources_compiles_no_kernel_again(self):
        self.assertRegex(self.mutate("of_a_source"), r"of_a_source +yes")
        self.assertEqual(self.log(), ["build", "kernel", "build"])

    def test_a_mutant_of_templates_survives_only_after_a_build(self):
        table = self.root / "tests/mutants/all.mutants"
        table.write_text(table.read_text().replace("+ 2\n[of_a_source]", "+ 1 \n+ \n[of_a_source]"))
        self.assertIn("it survives", self.mutate("of_a_template", status=1))
        self.assertEqual(self.log().count("build"), 2)

    def test_a_suite_that_cannot_use_a_folder_of_templates_is_an_error(self):
        self.put("tests/program", PROGRAM.replace("template=", '[ -z "$JITSTEP_TEMPLATES" ] || exit 1\ntemplate='))
        self.assertIn("fails without any mutant", self.mutate("of_a_template", status=2))
        self.mutate("of_a_source")

    def test_a_shard_of_a_table_runs_only_its_mutants(self):
        output = self.mutate("--from", "all", "--shard", "2/2")
        self.assertIn("of_a_source", output)
        self.assertNotIn("of_a_template", output)
        self.mutate("--from", "none", status=2)

    def test_files_that_the_tree_deleted_are_deleted_in_the_copy(self):
        self.mutate("of_a_source")
        for name in ("tools/old.cpp", "src/Zz.cpp"):
            (self.root / name).unlink()
        self.mutate("of_a_source")
        copied = {str(path.relative_to(self.outside / "copy")) for path in self.outside.glob("copy/*/*.cpp")}
        self.assertEqual(copied, {"src/a.cpp", "src/B.cpp"})
        self.assertTrue((self.outside / "copy/build/tests/test_a").exists())

    def test_a_folder_with_other_files_keeps_them(self):
        other = self.outside / "copy/thesis.tex"
        other.parent.mkdir()
        other.write_text("thesis")
        self.assertIn("would delete", self.mutate("of_a_source", status=2))
        self.assertEqual(other.read_text(), "thesis")
        other.unlink()
        self.mutate("of_a_source")

    def test_two_runs_cannot_use_one_copy(self):
        self.mutate("of_a_source")
        with (self.outside / "copy/.mutate/lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("another run", self.mutate("of_a_source", status=2))

    def test_jobs_share_the_mutants_and_the_table(self):
        table = self.outside / "table.md"
        output = self.mutate("--jobs", "2", "--table", table)
        for name in ("of_a_template", "of_a_source"):
            self.assertRegex(output, rf"{name} +yes")
            self.assertIn(f"`{name}`", table.read_text())
        self.assertEqual(output.count("mutate: 1 mutants, 0 failures"), 2)
        self.assertTrue((self.outside / "copy-2/.mutate").is_dir())

    def test_a_failure_of_one_job_fails_the_run(self):
        table = self.root / "tests/mutants/all.mutants"
        table.write_text(table.read_text().replace("+ 2", "+ 1 \n+ ", 1))
        output = self.mutate("--jobs", "3", status=1)
        self.assertIn("it survives", output)
        self.assertRegex(output, r"of_a_source +yes")
        self.mutate("--jobs", "0", status=2)


if __name__ == "__main__":
    unittest.main()
