#!/usr/bin/env python3
"""Tests of tools/mutants.py."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import mutants

TABLE = """[zero_becomes_one]
what: The function returns 1.
suites: test_jit:Zero.*
file: zero.cpp
  int zero() {
-   return 0;
+   return 1;
"""


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for folder in ("tests/mutants", "tests/jit"):
            (self.tree / folder).mkdir(parents=True)
        self.write_source("int zero() {\n      return 0;\n}\nint none() {\n  return 0;\n}\n")

    def write_source(self, text):
        (self.tree / "zero.cpp").write_text(text)

    def read(self, table=TABLE):
        (self.tree / "tests/mutants/all.mutants").write_text(table)
        return mutants.read_all(self.tree)

    def test_an_edit_replaces_its_lines_whatever_their_indentation(self):
        for edit in self.read()["zero_becomes_one"].edits:
            edit.apply(self.tree)
        self.assertEqual(
            (self.tree / "zero.cpp").read_text(), "int zero() {\nreturn 1;\n}\nint none() {\n  return 0;\n}\n"
        )

    def test_a_mutant_that_fits_gives_no_message_and_changes_nothing(self):
        before = (self.tree / "zero.cpp").read_text()
        self.assertEqual(mutants.misfits(self.read(), self.tree), [])
        self.assertEqual((self.tree / "zero.cpp").read_text(), before)

    def test_lines_that_are_missing_or_occur_twice_do_not_fit(self):
        found = self.read()
        for source in ("int zero() {\n  return 2;\n}\n", "int zero() {\nreturn 0;\n" * 2):
            self.write_source(source)
            (message,) = mutants.misfits(found, self.tree)
            self.assertIn("zero_becomes_one: zero.cpp", message)

    def test_a_missing_file_does_not_fit(self):
        found = self.read()
        (self.tree / "zero.cpp").unlink()
        self.assertEqual(len(mutants.misfits(found, self.tree)), 1)

    def test_a_program_without_a_folder_does_not_fit(self):
        (message,) = mutants.misfits(self.read(TABLE.replace("test_jit", "test_jti")), self.tree)
        self.assertIn("test_jti", message)
        self.assertEqual(mutants.misfits(self.read(TABLE.replace("test_jit", "test_jit_long")), self.tree), [])

    def test_an_unknown_line_is_an_error_with_its_number(self):
        with self.assertRaisesRegex(mutants.MutantError, "all.mutants:3"):
            self.read(TABLE.replace("suites:", "programs:"))

    def test_a_mutant_without_an_edit_or_a_suite_or_with_a_duplicate_name_is_an_error(self):
        for table in (TABLE[: TABLE.index("file:")], TABLE.replace("suites: test_jit:Zero.*\n", ""), TABLE * 2):
            with self.assertRaises(mutants.MutantError):
                self.read(table)

    def test_a_list_has_the_mutants_of_one_table_in_order(self):
        self.read()
        (self.tree / "tests/mutants/more.mutants").write_text(
            "".join(TABLE.replace("zero_becomes_one", name) for name in "abcde")
        )
        self.assertEqual(mutants.listed(self.tree, "", ""), ["zero_becomes_one", *"abcde"])
        self.assertEqual(mutants.listed(self.tree, "more", ""), [*"abcde"])
        self.assertEqual(mutants.listed(self.tree, "more", "2/2"), [*"cde"])
        with self.assertRaises(mutants.MutantError):
            mutants.listed(self.tree, "less", "")

    def test_every_name_is_in_one_shard(self):
        names = [*"abcdefg"]
        for count in range(1, 10):
            shards = [mutants.shard(names, f"{number}/{count}") for number in range(1, count + 1)]
            self.assertEqual(sum(shards, []), names)
            self.assertLessEqual(max(map(len, shards)) - min(map(len, shards)), 1)
        for wrong in ("0/2", "3/2", "2", "1/0", "1/2/3", "a/b", "-1/2"):
            with self.assertRaises(mutants.MutantError):
                mutants.shard(names, wrong)

    def test_a_suite_without_tests_is_an_orphan(self):
        program = self.tree / "test_jit"
        program.write_text("#!/bin/sh\nprintf 'Zero.\\n  IsZero\\nAll/Zero.\\n  Is/a  # GetParam() = a\\n'\n")
        program.chmod(0o755)
        self.assertEqual(mutants.orphans(self.read(), self.tree), [])
        other = self.read(TABLE.replace("Zero.*", "Zero.*-*IsZero"))
        self.assertEqual(len(mutants.orphans(other, self.tree)), 1)
        self.assertEqual(mutants.orphans(self.read(TABLE.replace("Zero.*", "*Is/a:-Zero.*")), self.tree), [])


if __name__ == "__main__":
    unittest.main()
