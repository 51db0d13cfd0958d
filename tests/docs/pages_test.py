#!/usr/bin/env python3
"""Tests of the documentation: links, environment variables, and the length of the README.

  pages_test.py    needs only the source tree
"""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
VARIABLE = re.compile(r"\"(JITSTEP_[A-Z_]+|WORLD_SIZE)\"")
README_LINES = 150


def pages():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def prose(page):
    """The text of a page without its code blocks."""
    return FENCE.sub("", page.read_text())


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def problem(page, target):
    """Describes a broken link. None if the link is valid."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return f"{page.relative_to(ROOT)}: no file {path}"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"{page.relative_to(ROOT)}: no heading #{anchor} in {file.relative_to(ROOT)}"
    return None


class Pages(unittest.TestCase):
    def test_every_link_has_an_existing_file_and_heading(self):
        links = [(page, one or other) for page in pages() for one, other in LINK.findall(prose(page))]
        self.assertGreater(len(links), 100)
        self.assertEqual([], [p for p in (problem(*link) for link in links) if p])

    def test_a_broken_link_is_reported(self):
        page = ROOT / "README.md"
        self.assertIn("no file docs/nothing.md", problem(page, "docs/nothing.md"))
        self.assertIn("no heading #nothing", problem(page, "docs/index.md#nothing"))
        self.assertIsNone(problem(page, "docs/install.md#requirements"))

    def test_the_index_reaches_every_page_of_docs(self):
        index = ROOT / "docs/index.md"
        reached, waiting = set(), [index]
        while waiting:
            page = waiting.pop()
            if page in reached or not page.is_relative_to(ROOT / "docs"):
                continue
            reached.add(page)
            targets = [(page.parent / one.partition("#")[0]).resolve() for one, _ in LINK.findall(prose(page)) if one]
            waiting += [t for t in targets if t.suffix == ".md" and t.is_file()]
        self.assertEqual([], sorted(str(p) for p in (ROOT / "docs").rglob("*.md") if p not in reached))

    def test_every_environment_variable_is_documented(self):
        page = (ROOT / "docs/reference/environment.md").read_text()
        sources = [f for folder in ("src", "tuning", "tools/jitstep") for f in (ROOT / folder).rglob("*.cpp")]
        read = {name for f in sources for name in VARIABLE.findall(f.read_text())}
        self.assertIn("JITSTEP_CACHE_DIR", read)
        self.assertEqual([], sorted(name for name in read if f"`{name}`" not in page))

    def test_the_readme_stays_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), README_LINES)


if __name__ == "__main__":
    unittest.main()
