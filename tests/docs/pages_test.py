#!/usr/bin/env python3
"""Tests of the documentation: links, environment variables, options, classes, the length of the README, and the size of
pictures.

pages_test.py    needs only the source tree
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from tree import ROOT, tracked_files

LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
VARIABLE = re.compile(r"\"(JITSTEP_[A-Z_]+|WORLD_SIZE)\"")
README_LINES = 150
PICTURE_BYTES = 60_000
OWN_OPTIONS = {
    "--help",
    "--version",
    "--complete",
}  # of every command, in no section; the last is for completion scripts
# An option of the tool, as its sources define it, and a command of the tool in a page.
OPTION = re.compile(r"\"(--[a-z][\w-]*(?:,--[a-z][\w-]*)*)\"")
COMMAND = re.compile(r"^(?:\$ )?jitstep ([a-z]+\b.*)$", re.M)
INLINE_COMMAND = re.compile(r"`jitstep ([a-z]+ [^`\n]*)`")
CLASS = re.compile(r"^(?:class|struct|enum class)(?: JITSTEP_API)? (\w+)(?: final)?(?: :[^;{]*)? ?\{", re.M)


def pages():
    return [ROOT / name for name in tracked_files() if name.endswith(".md")]


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


def cli_sections():
    """The options of each command, by its name with that of its subcommand."""
    parts = re.split(r"^##+ jitstep (.+)$", (ROOT / "docs/reference/cli.md").read_text(), flags=re.M)
    return {name: set(re.findall(r"--[a-z][\w-]*", text)) for name, text in zip(parts[1::2], parts[2::2])}


def commands(text):
    """The commands of the tool in a page, without the program's name."""
    blocks = [block for block in FENCE.findall(text) if not re.match("```(cpp|c\\+\\+|text)", block)]
    return [c for block in blocks for c in COMMAND.findall(block)] + INLINE_COMMAND.findall(FENCE.sub("", text))


def command_problem(sections, command):
    """What is wrong with a command, given without the program's name; nothing if it is right."""
    command = re.split(r" #| \| | > ", re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", command))[0]
    words = command.split()
    name = max((n for n in sections if words[: len(n.split())] == n.split()), key=len, default=None)
    if not name:
        return f"no command {words[0]}"
    unknown = [
        w.split("=")[0] for w in words if w.startswith("--") and w.split("=")[0] not in sections[name] | OWN_OPTIONS
    ]
    return f"no option {unknown[0]}" if unknown else None


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

    def test_every_option_of_the_tool_is_documented(self):
        page = (ROOT / "docs/reference/cli.md").read_text()
        sources = list((ROOT / "tools/jitstep").rglob("*.cpp")) + list((ROOT / "tools/jitstep").rglob("*.h"))
        options = {o for f in sources for literal in OPTION.findall(f.read_text()) for o in literal.split(",")}
        self.assertGreater(len(options), 40)
        shown = set(re.findall(r"--[a-z][\w-]*", page)) | OWN_OPTIONS
        self.assertEqual([], sorted(options - shown))

    def test_every_command_in_a_page_has_only_options_of_its_own(self):
        sections, found, wrong = cli_sections(), 0, []
        for page in pages():
            if page.relative_to(ROOT).as_posix().startswith(("docs/", "README", "CONTRIBUTING")):
                for command in commands(page.read_text()):
                    found += 1
                    problem = command_problem(sections, command)
                    if problem:
                        wrong.append(f"{page.relative_to(ROOT)}: jitstep {command}: {problem}")
        self.assertGreater(found, 25)
        self.assertEqual([], wrong)

    def test_an_option_of_another_command_is_found(self):
        sections = cli_sections()
        self.assertEqual("no option --rounds", command_problem(sections, "tune --rounds 3"))
        self.assertEqual("no command brew", command_problem(sections, "brew"))
        self.assertIsNone(command_problem(sections, "cache trim --max-size 1GB"))

    def test_every_public_class_is_named_in_a_page(self):
        text = "".join(p.read_text() for p in (ROOT / "docs").rglob("*.md"))
        named = set(re.findall(r"\w+", text))
        classes = {
            (f.name, name) for f in (ROOT / "include/jitstep").rglob("*.h") for name in CLASS.findall(f.read_text())
        }
        self.assertGreater(len(classes), 60)
        self.assertEqual([], sorted(c for c in classes if c[1] not in named))

    def test_every_public_header_is_in_the_list_of_the_api(self):
        page = (ROOT / "docs/reference/api.md").read_text()
        headers = [f.relative_to(ROOT).as_posix() for f in (ROOT / "include/jitstep").rglob("*.h")]
        unlisted = [h for h in headers if f"({'../../' + h})" not in page]
        self.assertEqual(["include/jitstep/hyper_params.h", "include/jitstep/jit/export.h"], sorted(unlisted))

    def test_counts_of_optimizers_and_formats_are_those_of_the_tree(self):
        folders = {"optimizers": "rules", "state formats": "codecs", "weight formats": "weights"}
        found = 0
        for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
            text = page.read_text().replace(", from float32 to 4 bits", " state formats")  # in tables of libraries
            for count, what in re.findall(r"\b(\d+) (optimizers|state formats|weight formats)\b", text):
                found += 1
                files = len(list((ROOT / "templates" / folders[what]).glob("*.cuh")))
                self.assertEqual(files, int(count), f"{page.relative_to(ROOT)}: {count} {what}")
        self.assertGreater(found, 4)

    def test_the_site_has_every_page_in_its_navigation(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "tools/site.py", folder + "/pages"], check=True)
            found = {p.relative_to(folder + "/pages").as_posix() for p in pathlib.Path(folder).rglob("*.md")}
        listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
        self.assertEqual(listed, {p for p in found if not p.startswith("files/")})

    def test_pictures_are_small(self):
        pictures = [*ROOT.glob("docs/img/*.svg"), *ROOT.glob("bench/results/*.svg")]
        self.assertTrue(pictures)
        self.assertEqual(
            [],
            [f"{p.relative_to(ROOT)}: {p.stat().st_size} bytes" for p in pictures if p.stat().st_size >= PICTURE_BYTES],
        )

    def test_the_citation_has_the_current_version(self):
        version = re.search(r'#define JITSTEP_VERSION "(.+)"', (ROOT / "include/jitstep/version.h").read_text())[1]
        self.assertIn(f"\nversion: {version}\n", (ROOT / "CITATION.cff").read_text())

    def test_the_readme_stays_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), README_LINES)


if __name__ == "__main__":
    unittest.main()
