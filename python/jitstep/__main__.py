"""python -m jitstep: the command-line tool, which the package contains.

`convert` between checkpoints of Python and C++ needs torch, and runs here: convert FROM TO --to python|c++.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from . import Error, package


def tool() -> str | None:
    """The program: that of the package, else the one on PATH."""
    own = Path(__file__).parent / "bin" / "jitstep"
    return str(own) if own.exists() else shutil.which("jitstep")


def _state_dict_in(path: str, key: str | None) -> dict[str, Any]:
    import pickle

    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, KeyError, RuntimeError) as error:
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"jitstep: {path} is no file of torch.save or torch::save: {cause}") from None
    if not isinstance(content, dict):
        raise ValueError(f"jitstep: {path} has an object of type {type(content).__name__}, and no state_dict.")
    if key is None and "param_groups" not in content:
        key = next((name for name, one in content.items() if isinstance(one, dict) and "param_groups" in one), None)
    found: Any = content if key is None else content.get(key)
    if not isinstance(found, dict) or not found.get("param_groups") or "state" not in found:
        raise ValueError(f"jitstep: {path} has no state_dict of an optimizer. Name its key with --key.")
    return found


def _load(path: str) -> None:
    """Loads the file of a rule or a codec."""
    from . import load_codec, load_rule

    if "namespace jitstep::codecs::" in Path(path).read_text(errors="replace"):
        load_codec(path)
    else:
        load_rule(path)


def _converted(
    source: str, target: str, *, to: str, rule: str | None, key: str | None, load: list[str], overwrite: bool
) -> str:
    """Converts a checkpoint between Python and C++, and returns a line that says what was written."""
    import torch

    from . import archive_writer, archives

    for path in load:
        _load(path)

    if not overwrite and os.path.lexists(target):
        raise ValueError(f"{target} exists already. Name another file, or pass --overwrite.")
    read = archives.read_archive(source, rule) if archives.is_archive(source) else _state_dict_in(source, key)
    if to == "c++":
        archive_writer.write_archive(target, read)
    else:
        archive_writer.write_whole(target, lambda name: torch.save(read, name))
    kind = "an archive for C++" if to == "c++" else "a state_dict for Python"
    return f"{read['param_groups'][0].get('rule')}, {len(read['state'])} parameters with state: {target} is {kind}"


def _kind(text: str) -> str:
    """What --to names."""
    return "c++" if text == "cpp" else text


def _convert(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        "python -m jitstep convert", description="Convert a checkpoint between Python and C++, bit for bit."
    )
    parser.add_argument("source", metavar="FROM", help="a file of torch.save (state_dict) or of torch::save")
    parser.add_argument("target", metavar="TO", help="the file to write")
    parser.add_argument(
        "--to", type=_kind, choices=("python", "c++"), required=True, help="the kind of the new file; cpp is c++"
    )
    parser.add_argument("--rule", help="for archives of torch's C++ optimizers, which do not name theirs: adamw")
    parser.add_argument("--key", help="where a dict in FROM has the optimizer's state_dict. Default: found by itself")
    parser.add_argument(
        "--load", action="append", default=[], metavar="FILE", help="file of a rule or codec that the checkpoint names"
    )
    parser.add_argument("--overwrite", action="store_true", help="TO may exist")
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(
            f"--to changes the kind of the file, and keeps formats. It has no argument {unknown[0]}. To change formats "
            "of a C++ file, call jitstep convert without --to."
        )
    try:
        print(_converted(**vars(args)))
    except (ValueError, OSError, Error) as error:
        sys.exit(f"jitstep: {str(error).removeprefix('jitstep: ')}")


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
