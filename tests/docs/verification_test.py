#!/usr/bin/env python3
"""Tests the results in docs/project/verification.md: no failure, and none is much older than the files it covers.

verification_test.py    needs the tree with its history; without one it is skipped, and in a part of tools/verify.sh
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = "docs/project/verification.md"
COMMITS = 100
SKIPPED = 77


def rows(text):
    """The result and the commit of each part in the page."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
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


def has_history(commits):
    """False in a shallow clone, and in a copy of the tree in another repository, which has none of the commits."""
    if git("rev-parse", "--is-shallow-repository") != "false":
        return False
    return not commits or any(git("merge-base", "--is-ancestor", commit, "HEAD") is not None for commit in commits)


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


def gaps(commands, tables):
    """Messages about shards and tables of mutants that no part runs."""
    shards = {}
    for command in commands:
        match = re.search(r"(--shard |-I )(\d+)(/|,,)(\d+)$", command)
        if match:
            shards.setdefault((command[: match.start()], match[4]), set()).add(int(match[2]))
    for (command, count), numbers in shards.items():
        if numbers != set(range(1, int(count) + 1)):
            yield f"`{command}` has the shards {sorted(numbers)} of {count}"
    used = {match[1] for command in commands if (match := re.search(r"mutate\.sh --from (\w+)", command))}
    if used != tables:
        yield f"the tables in tests/mutants and those of the parts differ: {sorted(used ^ tables)}"


def test_of_this_test():
    files = {"a": ["x"], "b": ["y"]}
    good = {"a": ("passed", "1"), "b": ("not run", "-")}
    ages = {"1": COMMITS, "2": COMMITS + 1, "3": None}
    find = lambda results: list(problems(results, files, lambda commit, _: ages[commit]))
    assert not find(good)
    for wrong in ("passed", "2"), ("passed", "3"), ("failed", "1"):
        assert len(find({**good, "a": wrong})) == 1, wrong
    assert len(find({"a": good["a"]})) == 1
    commands = ["x --from a --shard 1/2", "x --from a --shard 2/2", "tools/mutate.sh --from a", "y -R z -I 1,,1"]
    assert not list(gaps(commands, {"a"}))
    assert len(list(gaps(commands[1:], {"a"}))) == 1
    assert len(list(gaps(commands, {"a", "b"}))) == 1
    assert len(list(gaps(["y -I 1,,2"], set()))) == 1


def main():
    test_of_this_test()
    table = (ROOT / "tools/verify_parts.txt").read_text()
    tables = {path.stem for path in (ROOT / "tests/mutants").glob("*.mutants")}
    found = list(gaps([line.split(" | ", 2)[2] for line in table.splitlines() if not line.startswith("#")], tables))
    results = rows((ROOT / PAGE).read_text())
    renewed = "JITSTEP_VERIFY" in os.environ  # a part of tools/verify.sh runs, so the page has old results
    if renewed or not has_history([commit for result, commit in results.values() if result != "not run"]):
        print("\n".join(found))
        sys.exit(1 if found else SKIPPED)
    found += problems(results, parts(table))
    print("\n".join(found) or "every result is recent")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
