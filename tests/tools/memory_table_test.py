#!/usr/bin/env python3
"""Tests of tools/memory_table.py: the page is current, and --check reports a page that is not.

memory_table_test.py TOOL    TOOL is build/tools/jitstep
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/tools/jitstep")


class MemoryTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = (ROOT / "docs/guides/memory.md").read_text()
        self.copy = pathlib.Path(folder.name, "memory.md")

    def call(self, page, *arguments):
        self.copy.write_text(page)
        command = [sys.executable, ROOT / "tools/memory_table.py", "--tool", TOOL, "--page", self.copy]
        return subprocess.run(command + list(arguments), stderr=subprocess.PIPE, text=True)

    def test_the_page_has_the_current_figures(self):
        done = self.call(self.page, "--check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_outdated_figure_is_reported_and_updated(self):
        row = "| `--rule adamw --weights split16 --state int4` | 2.00 | 2.00 | 2.00 | 1.06 | 7.06 |"
        self.assertIn(row, self.page)
        wrong = self.page.replace(row, row.replace("7.06", "6.06"))
        done = self.call(wrong, "--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not current", done.stderr)
        self.assertEqual(self.copy.read_text(), wrong)
        self.assertEqual(self.call(wrong).returncode, 0)
        self.assertEqual(self.copy.read_text(), self.page)

    def test_rows_have_the_measured_figures_of_other_libraries(self):
        rows = {line.split("`")[1]: line for line in self.page.splitlines() if line.startswith("| `--rule ")}
        self.assertIn("torchao AdamW8bit 10.03, bitsandbytes AdamW8bit 10.03", rows["--rule adamw --state int8"])
        self.assertIn("torch AdamW 16.00", rows["--rule adamw"])
        self.assertIn("torch AdamW 8.00", rows["--rule adamw --weights stochastic --state bf16_sr"])

    def test_a_page_without_the_marks_is_rejected(self):
        done = self.call("# A page\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the two marks", done.stderr)
        self.assertEqual(self.copy.read_text(), "# A page\n")


if __name__ == "__main__":
    unittest.main()
