#!/usr/bin/env python3
"""Reads the tables of mutants and applies single mutants to a copy of the tree.

A mutant is a small defect that the tests must notice. The tables are tests/mutants/*.mutants:

  [name_of_the_mutant]
  what: One sentence that describes the defect.
  suites: PROGRAM:GTEST_FILTER PROGRAM:GTEST_FILTER ...
  equivalent: Why no test can notice it. (Optional: such a mutant must survive.)
  file: path/of/a/source.cpp
    an unchanged line
  - a removed line
  + an added line

The unchanged and removed lines are consecutive in the file and occur there exactly once.
Leading and trailing blanks are ignored, so that formatting does not matter.
`file:` may be repeated, for several edits. `build:TARGET` in `suites` names a build that must fail.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent


class MutantError(Exception):
    """A table or a mutant is invalid. The message names the table's file and line, or the mutant."""


@dataclass
class Edit:
    """Consecutive lines of one file, without leading and trailing blanks, and their replacement."""

    file: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def add(self, line: str) -> bool:
        """Adds a line of the table. Returns False if the line does not belong to an edit."""
        mark, text = line[:2].ljust(2), line[2:].strip()
        if mark not in ("  ", "- ", "+ "):
            return False
        if mark != "+ ":
            self.before.append(text)
        if mark != "- ":
            self.after.append(text)
        return True

    def apply(self, tree: pathlib.Path) -> None:
        """Replaces the lines in the file in `tree`. They must occur exactly once."""
        path = tree / self.file
        if not path.is_file():
            raise MutantError(f"there is no file {self.file}")
        lines = path.read_text().split("\n")
        texts = [line.strip() for line in lines]
        size = len(self.before)
        starts = [i for i in range(len(texts) - size + 1) if texts[i : i + size] == self.before]
        if not size or len(starts) != 1:
            first = self.before[0] if size else "(no line)"
            raise MutantError(f"{self.file} has these lines {len(starts)} times, not once: {first} ...")
        start = starts[0]
        indent = lines[start][: len(lines[start]) - len(texts[start])]
        lines[start : start + size] = [indent + text if text else "" for text in self.after]
        path.write_text("\n".join(lines))


@dataclass
class Mutant:
    """One entry of a table."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)

    def suites(self) -> list[tuple[str, str]]:
        """(program, filter) of each suite that must fail, or ("build", target) for a build."""
        return [tuple(suite.split(":", 1)) for suite in self.fields["suites"].split()]

    def add(self, line: str) -> bool:
        """Adds a line of the table. Returns False if the line does not belong to this mutant."""
        if self.edits and self.edits[-1].add(line):
            return True
        key, separator, value = line.partition(": ")
        if not separator or key not in ("what", "suites", "equivalent", "file"):
            return False
        if key == "file":
            self.edits.append(Edit(value.strip()))
        else:
            self.fields[key] = value.strip()
        return True

    def check_complete(self) -> None:
        """Raises MutantError if a required field is missing, or if the edits change nothing."""
        for key in ("what", "suites"):
            if not self.fields.get(key):
                raise MutantError(f"{self.name} has no line '{key}: ...'")
        if not self.edits or any(edit.before == edit.after for edit in self.edits):
            raise MutantError(f"{self.name} changes nothing")


def read_table(path: pathlib.Path) -> list[Mutant]:
    """The mutants of one file, in the order of the file."""
    mutants: list[Mutant] = []
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("[") and line.endswith("]"):
            mutants.append(Mutant(line[1:-1]))
        elif line.strip() and not (mutants and mutants[-1].add(line)):
            raise MutantError(f"{path.name}:{number}: this line is not valid in a table of mutants: {line}")
    return mutants


def read_all(tree: pathlib.Path) -> dict[str, Mutant]:
    """All mutants of a tree by name."""
    found: dict[str, Mutant] = {}
    for path in sorted((tree / "tests/mutants").glob("*.mutants")):
        for mutant in read_table(path):
            if mutant.name in found:
                raise MutantError(f"two mutants are called {mutant.name}")
            mutant.check_complete()
            found[mutant.name] = mutant
    return found


def shard(names: list[str], text: str) -> list[str]:
    """Shard I of N ("I/N") of the names. The shards are consecutive, because neighbors often name the same suites."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    number, count = (int(match[1]), int(match[2])) if match else (1, 0)
    if number > count:
        raise MutantError(f'--shard is "{text}". Give the number of the shard and their count, such as 2/8.')
    return names[len(names) * (number - 1) // count : len(names) * number // count]


def listed(tree: pathlib.Path, table: str, part: str) -> list[str]:
    """The names of all mutants, or of one table, or a shard of them."""
    mutants = read_all(tree)
    if table:
        path = tree / f"tests/mutants/{table}.mutants"
        if not path.is_file():
            raise MutantError(f"there is no table {path.name} in {path.parent}")
        mutants = {mutant.name: mutant for mutant in read_table(path)}
    return shard(list(mutants), part) if part else list(mutants)


def tests_of(program: pathlib.Path) -> list[str]:
    """SUITE.NAME of every test of a program."""
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    names, suite = [], ""
    for line in listed.stdout.splitlines():
        text = line.split("#")[0].rstrip()
        if text.startswith("  "):
            names.append(suite + text.strip())
        elif text.endswith("."):
            suite = text
    return names


def matches(test: str, gtest_filter: str) -> bool:
    """Whether a GoogleTest filter selects a test."""
    wanted, _, unwanted = gtest_filter.partition("-")

    def any_of(patterns: str) -> bool:
        return any(fnmatch.fnmatchcase(test, p.replace("[", "[[]")) for p in patterns.split(":") if p)

    return any_of(wanted or "*") and not any_of(unwanted)


def orphans(mutants: dict[str, Mutant], programs: pathlib.Path) -> list[str]:
    """Messages about suites that match no test of the programs in a folder. Ignores programs that are not built."""
    tests: dict[str, list[str]] = {}
    messages = []
    for mutant in mutants.values():
        for program, pattern in mutant.suites():
            if program == "build" or not (programs / program).exists():
                continue
            if program not in tests:
                tests[program] = tests_of(programs / program)
            if not any(matches(test, pattern) for test in tests[program]):
                messages.append(f"{mutant.name}: {program} has no test {pattern}")
    return messages


def misfits(mutants: dict[str, Mutant], tree: pathlib.Path) -> list[str]:
    """Messages about mutants that do not fit the tree. Does not change the tree."""
    messages = []
    for mutant in mutants.values():
        with tempfile.TemporaryDirectory() as folder:
            try:
                for name in {edit.file for edit in mutant.edits}:
                    target = pathlib.Path(folder) / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if (tree / name).is_file():
                        target.write_text((tree / name).read_text())
                for edit in mutant.edits:
                    edit.apply(pathlib.Path(folder))
            except MutantError as error:
                messages.append(f"{mutant.name}: {error}")
        for program, _ in mutant.suites():
            if program != "build" and not has_program(tree, program):
                messages.append(f"{mutant.name}: there is no test program {program}")
    return messages


def has_program(tree: pathlib.Path, program: str) -> bool:
    """Whether a test program, such as test_jit or test_jit_long, has a folder in tests/."""
    return (tree / "tests" / program.removeprefix("test_").removesuffix("_long")).is_dir()


def check(arguments: argparse.Namespace, mutants: dict[str, Mutant]) -> int:
    """Prints all misfits and orphans. Returns the exit status."""
    messages = misfits(mutants, arguments.tree)
    if arguments.programs:
        messages += orphans(mutants, arguments.programs)
    for message in messages:
        print(message, file=sys.stderr)
    print(f"{len(mutants)} mutants, {len(messages)} do not fit the tree")
    return 1 if messages else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT, help="the tree (default: this one)")
    commands = parser.add_subparsers(dest="command", required=True)
    names = commands.add_parser("list", help="print the names")
    names.add_argument("--from", dest="table", default="", help="only those of tests/mutants/TABLE.mutants")
    names.add_argument("--shard", default="", help="only a part of them, such as 2/8")
    shown = commands.add_parser("field", help="print the value of a mutant's key")
    shown.add_argument("name")
    shown.add_argument("key")
    applied = commands.add_parser("apply", help="change the files below --tree")
    applied.add_argument("name")
    applied.add_argument("--touched", action="store_true", help="only print the files that would change")
    checked = commands.add_parser("check", help="fail if a mutant does not fit the tree")
    checked.add_argument(
        "--programs", type=pathlib.Path, help="folder of test programs; `suites` must match their tests"
    )
    arguments = parser.parse_args()
    try:
        mutants = read_all(ROOT)
        if arguments.command == "list":
            print("\n".join(listed(ROOT, arguments.table, arguments.shard)))
        elif arguments.command == "check":
            return check(arguments, mutants)
        elif arguments.name not in mutants:
            raise MutantError(f"there is no mutant {arguments.name}. `list` prints all names.")
        elif arguments.command == "field":
            print(mutants[arguments.name].fields.get(arguments.key, ""))
        elif arguments.touched:
            print("\n".join(sorted({edit.file for edit in mutants[arguments.name].edits})))
        else:
            for edit in mutants[arguments.name].edits:
                edit.apply(arguments.tree)
    except MutantError as error:
        print(f"mutants: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
