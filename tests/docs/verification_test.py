#!/usr/bin/env python3
"""Tests the results in docs/project/verification.md: no failure, and none is much older than the files it covers.

  verification_test.py    needs the tree with its history; without one it is skipped
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = "docs/project/verification.md"
COMMITS = 100
SKIPPED = 77


def rows(text):
    """The result and the commit of each part in the page."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: (row[1], row[2]) for row in cells[2:]}


def parts(text):
    """The files of each part in the table."""
    lines = [line.split("|") for line in text.splitlines() if line and not line.startswith("#")]
    return {line[0].strip(): line[1].split() for line in lines}


def git(*arguments):
    run = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return run.stdout.strip() if run.returncode == 0 else None


def age(commit, files):
    """The number of later commits that changed the files. None for an unknown commit."""
    count = git("rev-list", "--count", f"{commit}..HEAD", "--", *files, f":!{PAGE}")
    return None if count is None else int(count)


def problems(results, files, age_of=age):
    if set(results) != set(files):
        yield f"the parts of the page and of tools/verify_parts.txt differ: {sorted(set(results) ^ set(files))}"
    for part in sorted(set(results) & set(files)):
        result, commit = results[part]
        if result == "not run":
            continue
        commits = age_of(commit, files[part])
        if result != "passed":
            yield f"{part} {result} on {commit}"
        elif commits is None:
            yield f"{part} ran on {commit}, which is not in the history"
        elif commits > COMMITS:
            yield f"{part} ran {commits} commits ago. Run `tools/verify.sh --part {part}` and `tools/verify.sh --write`"


def test_of_this_test():
    files = {"a": ["x"], "b": ["y"]}
    good = {"a": ("passed", "1"), "b": ("not run", "-")}
    ages = {"1": COMMITS, "2": COMMITS + 1, "3": None}
    find = lambda results: list(problems(results, files, lambda commit, _: ages[commit]))
    assert not find(good)
    for wrong in ("passed", "2"), ("passed", "3"), ("failed", "1"):
        assert len(find({**good, "a": wrong})) == 1, wrong
    assert len(find({"a": good["a"]})) == 1


def main():
    test_of_this_test()
    if git("rev-parse", "--is-shallow-repository") != "false":
        sys.exit(SKIPPED)
    found = list(problems(rows((ROOT / PAGE).read_text()), parts((ROOT / "tools/verify_parts.txt").read_text())))
    print("\n".join(found) or "every result is recent")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
