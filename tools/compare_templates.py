#!/usr/bin/env python3
"""Compares the kernels that the templates of two commits compile to on the CPU: proves that a change only moved text.

Compiles a kernel of each rule, and AdamW with each state format and weight format. Prints the kernels whose
instructions differ, and those that only one commit compiles. Exits with 1 if there are any. build/tools/jitstep writes
the units, so both commits must have the files that these include.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "build" / "tools" / "jitstep"


def templates_of(commit: str | None, folder: pathlib.Path) -> pathlib.Path:
    """Writes a commit's templates into the folder, readable for jitstep: nobody else may write there."""
    folder.mkdir(mode=0o755)
    if commit is None:
        subprocess.run(["cp", "-r", ROOT / "templates", folder], check=True)
    else:
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", commit, "templates"], stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    subprocess.run(["chmod", "-R", "go-w", folder], check=True)
    return folder / "templates"


def kernels() -> list[list[str]]:
    names = json.loads(subprocess.run([TOOL, "list", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    return (
        [["--rule", one["rule"]] for one in names["rules"]]
        + [["--state", one["codec"]] for one in names["codecs"]]
        + [["--weights", one["weights"]] for one in names["weights"]]
    )


def assembly(arguments: list[str], templates: pathlib.Path) -> list[str] | str:
    """Instructions, labels and tables without comments, or the message of a kernel that does not exist."""
    run = subprocess.run(
        [TOOL, "inspect", *arguments, "--target", "cpu", "--show", "asm"],
        capture_output=True,
        text=True,
        env={**os.environ, "JITSTEP_TEMPLATES": str(templates)},
    )
    if run.returncode != 0:
        return run.stderr
    return [line for line in run.stdout.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", help="a commit; default: the files as they are")
    given = parser.parse_args()
    differ = compared = 0
    with tempfile.TemporaryDirectory() as temporary:
        folders = [
            templates_of(commit, pathlib.Path(temporary) / name)
            for commit, name in ((given.old, "old"), (given.new, "new"))
        ]
        for arguments in kernels():
            before, after = (assembly(arguments, folder) for folder in folders)
            if isinstance(before, str) and isinstance(after, str):
                print(" ".join(arguments), "is not compared:", before)
                continue
            compared += 1
            if before != after:
                differ += 1
                print(" ".join(arguments), "differs")
    print(f"{compared} kernels compared, {differ} differ")
    return 1 if differ or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
