"""python -m jitstep: the command-line tool, which the package contains.

`convert` between checkpoints of Python and C++ needs torch, and runs here: convert FROM TO --to python|c++.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from . import package


def tool() -> str | None:
    """The program: that of the package, else the one on PATH."""
    own = Path(__file__).parent / "bin" / "jitstep"
    return str(own) if own.exists() else shutil.which("jitstep")


def _convert(arguments: list[str]) -> None:
    from . import archives

    parser = argparse.ArgumentParser(
        "python -m jitstep convert", description="Convert a checkpoint between Python and C++, bit for bit."
    )
    parser.add_argument("source", metavar="FROM", help="a file of torch.save (state_dict) or of torch::save")
    parser.add_argument("target", metavar="TO", help="the file to write")
    parser.add_argument("--to", choices=("python", "c++"), required=True, help="the kind of the new file")
    parser.add_argument("--rule", help="for archives of torch's C++ optimizers, which do not name theirs: adamw")
    parser.add_argument("--key", help="where a dict in FROM has the optimizer's state_dict. Default: found by itself")
    parser.add_argument("--overwrite", action="store_true", help="TO may exist")
    args = parser.parse_args(arguments)
    try:
        print(archives.convert(**vars(args)))
    except (ValueError, OSError) as error:
        sys.exit(f"jitstep: {error}")


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["convert"] and any(one == "--to" or one.startswith("--to=") for one in arguments):
        _convert(arguments[1:])
        return
    program = tool()
    if program is None:
        sys.exit("jitstep: the package has no command-line tool, and PATH has none. Install the package again.")
    os.execve(program, ["jitstep", *arguments], package.tool_environment())


if __name__ == "__main__":
    main()
