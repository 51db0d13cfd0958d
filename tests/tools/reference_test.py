#!/usr/bin/env python3
"""Tests of the generated pages of docs/: they are current and complete.

reference_test.py PROGRAM    PROGRAM is build/tools/jitstep-reference
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/tools/jitstep-reference")
DOCS = ROOT / "docs"
RULES = sorted(ROOT.glob("templates/rules/*.cuh"))


def row(page, name):
    """The cells of the table row whose first cell is `name`."""
    line = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


class Reference(unittest.TestCase):
    def call(self, *arguments, environment=None):
        return subprocess.run([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, env=environment)

    def test_the_pages_are_current(self):
        done = self.call("--check", str(DOCS))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_changed_and_a_leftover_page_are_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.call(folder).returncode, 0)
            self.assertEqual(self.call("--check", folder).returncode, 0)
            page = pathlib.Path(folder, "optimizers/lion.md")
            page.write_text(page.read_text().replace("Lion", "Tiger"))
            other = pathlib.Path(folder, "optimizers/thesis.txt")
            other.write_text("Mine.\n")
            generated = page.read_text().splitlines()[0]
            pathlib.Path(folder, "optimizers/gone.md").write_text(f"{generated}\n\n# Gone\n")
            done = self.call("--check", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("lion.md is not current", done.stderr)
            self.assertIn("gone.md is not current", done.stderr)
            self.assertEqual(self.call(folder).returncode, 0)
            self.assertEqual(self.call("--check", folder).returncode, 0)
            self.assertTrue(other.exists())

    def test_every_optimizer_has_a_page_in_the_index_and_the_navigation(self):
        index, navigation = (DOCS / "optimizers/index.md").read_text(), (ROOT / "mkdocs.yml").read_text()
        for rule in RULES:
            page = (DOCS / f"optimizers/{rule.stem}.md").read_text()
            for heading in ("## Options", "## State", "## Weight formats", "```cpp"):
                self.assertIn(heading, page, rule.stem)
            formulas = re.search(r"## Formulas\n.*?```cuda\n(struct Rule \{\n.*?\n\};\n)```", page, re.S)
            self.assertIn(formulas[1], rule.read_text())
            self.assertIn(f"]({rule.stem}.md)", index)
            self.assertIn(f"optimizers/{rule.stem}.md", navigation)
        self.assertGreater(len(RULES), 30)

    def test_every_invalid_option_is_on_the_page_with_its_reason(self):
        found = 0
        for rule in RULES:
            for reason in re.findall(r"^// refuse: [^\n]*?, ([^\n]*)", rule.read_text(), re.M):
                found += 1
                for page in (f"optimizers/{rule.stem}.md", "reference/formats.md"):
                    self.assertIn(reason, (DOCS / page).read_text())
        self.assertGreater(found, 7)

    # Computed by hand: int8 momentum has one byte, and 4 bytes per block of 256. A pass of sums has two launches.
    def test_bytes_and_launches(self):
        page = (DOCS / "reference/bytes.md").read_text()
        head = row(page, "optimizer")
        lion = dict(zip(head, row(page, "[lion](../optimizers/lion.md)")))
        self.assertEqual([lion[x] for x in ("launches", "fp32", "bf16", "int8")], ["1", "4.000", "2.000", "1.016"])
        self.assertEqual(row(page, "[lamb](../optimizers/lamb.md)")[1], "3")
        self.assertEqual(row(page, "[muon](../optimizers/muon.md)")[1], "2")

    def test_the_default_state_of_an_optimizer(self):
        page = (DOCS / "optimizers/lamb16.md").read_text()
        self.assertEqual(row(page, "`m`")[-1], "`fp8_norm(least_norm=eps)` if `form == original`, else `int8_softsign`")
        self.assertEqual(row((DOCS / "optimizers/lamb.md").read_text(), "`m`")[-1], "`fp32`")

    def test_a_file_in_another_folder_of_templates(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "templates", f"{folder}/templates")
            shutil.copy(ROOT / "examples/signum.cuh", f"{folder}/templates/rules")
            done = self.call(f"{folder}/docs", environment={"JITSTEP_TEMPLATES": f"{folder}/templates"})
            self.assertEqual(done.returncode, 0, done.stderr)
            page = pathlib.Path(folder, "docs/optimizers/signum.md").read_text()
            self.assertIn("jitstep::Signum optimizer(", page)
            self.assertEqual(row(page, "`m`")[1], "`momentum_buffer`")


if __name__ == "__main__":
    unittest.main()
