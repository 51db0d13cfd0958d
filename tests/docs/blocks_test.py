"""Every sample of the documentation is a part of a file that tests build and run.

A ```cpp block equals a marked region, `// [docs:NAME]` to `// [docs:NAME end]`, of a program in examples/docs/, or
consecutive lines of a file in examples/ or templates/. Indentation is not compared. A ```c++ block lists signatures.
A block that begins with `$ jitstep` equals a part of a transcript of the tool. Numbers and widths are not compared.
The samples of docs/optimizers/ are generated, and tests/tools/samples_test.py compiles them.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(cpp|c\+\+)\n(.*?)^```$", re.M | re.S)
REGION = re.compile(r"^ *// \[docs:([\w-]+)\]\n(.*?)^ *// \[docs:\1 end\]$", re.M | re.S)


def pages() -> list[pathlib.Path]:
    return [ROOT / "README.md"] + [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "optimizers"]


def blocks(fence: str) -> list[tuple[str, str]]:
    """Page with line number, and text, of all blocks with this fence."""
    found = []
    for page in pages():
        text = page.read_text()
        for block in BLOCK.finditer(text):
            if block[1] == fence:
                found.append((f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}", block[2]))
    return found


def flat(text: str) -> str:
    """The lines without indentation, each closed by a line end."""
    return "\n" + "".join(line.strip() + "\n" for line in text.splitlines())


def masked(output: str) -> str:
    """Output of the tool without numbers, column widths and empty lines, each line closed by a line end."""
    lines = [
        re.sub(r"\b\d+(\.\d+)?\b|\bN\b", "N", re.sub(r" {2,}", "  ", line.strip())) for line in output.splitlines()
    ]
    return "\n" + "".join(re.sub(r"(N  )+N\b", "N", line) + "\n" for line in lines if line)


def regions() -> dict[str, str]:
    files = sorted((ROOT / "examples").rglob("*.cpp"))
    return {f"{f.name}:{name}": flat(body) for f in files for name, body in REGION.findall(f.read_text())}


def whole_files() -> list[str]:
    files = [
        f
        for pattern in ("*.cpp", "*.cuh")
        for f in (ROOT / "examples").rglob(pattern)
        if not REGION.search(f.read_text())
    ]
    return [flat(f.read_text()) for f in files + list((ROOT / "templates").rglob("*.cuh"))]


class Commands(unittest.TestCase):
    def test_every_command_with_output_equals_a_transcript(self) -> None:
        transcripts = [masked(f.read_text()) for f in (ROOT / "tests/tools/transcripts").glob("*.txt")]
        shown = {
            f"{page.relative_to(ROOT)}: {block[1].splitlines()[0]}": block[1]
            for page in pages()
            for block in re.finditer(r"^```\w*\n(\$ jitstep.*?)^```$", page.read_text(), re.M | re.S)
        }
        self.assertGreaterEqual(len(shown), 2)
        self.assertEqual(
            [], [place for place, block in shown.items() if not any(masked(block) in t for t in transcripts)]
        )

    def test_another_output_is_found(self) -> None:
        self.assertIn(masked("$ jitstep x\na   1.5  2\n"), masked("$ jitstep x\na  N\n\nb"))
        self.assertNotIn(masked("$ jitstep x\na  1\n"), masked("$ jitstep x\nb  1\n"))


class Samples(unittest.TestCase):
    def test_every_block_is_a_part_of_a_file_that_is_built(self) -> None:
        found, files = set(regions().values()), whole_files()
        samples = blocks("cpp")
        self.assertGreater(len(samples), 30)
        unknown = [
            place for place, text in samples if flat(text) not in found and not any(flat(text) in f for f in files)
        ]
        self.assertFalse(unknown, "\n".join(["no file in examples/ or templates/ has the sample of"] + unknown))

    def test_every_region_is_shown(self) -> None:
        shown = {flat(text) for _, text in blocks("cpp")}
        self.assertFalse([name for name, text in regions().items() if text not in shown])

    def test_signatures_have_no_bodies(self) -> None:
        for place, text in blocks("c++"):
            code = re.sub(r" *//.*", "", text)
            self.assertFalse(re.search(r"\) *\{", code), place)


if __name__ == "__main__":
    unittest.main()
