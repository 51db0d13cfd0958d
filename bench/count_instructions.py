#!/usr/bin/env python3
"""Counts instructions by valgrind, which do not depend on the load of the machine: of a step of 700 empty parameters,
and of making an optimizer of ten parameters. Each is the difference of two runs, divided by that of their counts.

  count_instructions.py [BUILD]      default: build
"""
import pathlib
import re
import subprocess
import sys

WORK = {"a step of 700 empty parameters": ("--steps", 10, 110), "an optimizer of 10 parameters": ("--optimizers", 3, 23)}


def instructions(program: pathlib.Path, flag: str, count: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, flag, str(count)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def main() -> None:
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build") / "bench" / "host_benchmark"
    for what, (flag, few, many) in WORK.items():
        each = (instructions(program, flag, many) - instructions(program, flag, few)) / (many - few)
        print(f"{what}: {each:,.0f} instructions")


if __name__ == "__main__":
    main()
