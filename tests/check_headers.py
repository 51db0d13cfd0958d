#!/usr/bin/env python3
"""Checks that every public header says what it is for, and compiles alone, as a program may include it first.

check_headers.py COMPILER [FLAG]... -- HEADER...    flags find what headers include; headers are relative to include/
"""

import pathlib
import re
import subprocess
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"


def problem(compiler, flags, header):
    """Why a header is not complete: no purpose in its first line, or the compiler's first lines. Empty if it is."""
    file = INCLUDE / header
    if file.exists() and not re.match(r"// [A-Z].{15,}", file.read_text()):
        return "the first line does not say what the header is for"
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", *flags, "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
    return "\n".join(done.stderr.splitlines()[:8]) if done.returncode else ""


def main():
    arguments = sys.argv[1:]
    split = arguments.index("--")
    compiler, *flags = arguments[:split]
    headers = arguments[split + 1 :]
    if not headers:
        sys.exit("check_headers.py: no headers given")
    problems = [f"{header}:\n{text}" for header in headers if (text := problem(compiler, flags, header))]
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(headers)} headers have a purpose and compile alone")


if __name__ == "__main__":
    main()
