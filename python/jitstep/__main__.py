"""python -m jitstep: the command-line tool, which the package contains."""

import os
import shutil
import sys
from pathlib import Path


def tool() -> str | None:
    """The program: that of the package, else the one on PATH."""
    own = Path(__file__).parent / "bin" / "jitstep"
    return str(own) if own.exists() else shutil.which("jitstep")


def main() -> None:
    program = tool()
    if program is None:
        sys.exit("jitstep: the package has no command-line tool, and PATH has none. Install the package again.")
    os.execv(program, ["jitstep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
