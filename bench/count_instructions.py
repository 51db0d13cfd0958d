#!/usr/bin/env python3
"""Counts instructions by valgrind, which do not depend on the load of the machine: of a step of 700 empty parameters,
and of making an optimizer of ten parameters. Each is a mean of repetitions after the first.

  count_instructions.py [BUILD]      default: the folder build of this tree
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNT = 20
WORK = {"a step of 700 empty parameters": "--steps", "an optimizer of 10 parameters": "--optimizers"}


def instructions(program: pathlib.Path, flag: str) -> int:
    command = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*::repeat(*",
        program,
        flag,
        str(COUNT),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def main() -> None:
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build") / "bench" / "host_benchmark"
    for what, flag in WORK.items():
        print(f"{what}: {instructions(program, flag) / COUNT:,.0f} instructions")


if __name__ == "__main__":
    main()
