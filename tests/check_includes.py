#!/usr/bin/env python3
"""Holds the order of the rooms: an include is a real path, and points at the same floor or below.

  check_includes.py [--graph]     --graph prints how often each room includes each other one

A quoted include of ours is found beside the including file (templates, and programs of several
files) or below src/, include/ or tests/, what is of tuning/ by its whole path; only rules.h is generated. A public header knows public
headers only, src/jit and the emulation no torch, src/optim no tuning and no emulation.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOORS = [
    "templates", "jit/base", "jit/source", "jit/compiler", "jit/cache", "jit/engine",
    "jit/manifest", "jit/codegen", "jit/step", "emulation", "optim/tensor", "optim/options",
    "optim/state", "optim/optimizer", "tuning", "tools", "bench", "examples", "python", "tests",
]
# Public headers lie beside each other; those without a source of their name say here where they live.
HEADER_ONLY = {
    "jit/error.h": "jit/base", "jit/export.h": "jit/base", "version.h": "jit/base",
    "engine_error.h": "optim/tensor",
    "jit/compiler.h": "jit/compiler", "jit/step_tensor.h": "jit/step", "args.h": "templates",
    "jitstep.h": "optim/optimizer", "rules.h": "optim/optimizer", "host_transform.h": "optim/optimizer",
}
GENERATED = {"jitstep/rules.h"}
OURS = re.compile(r'^\s*#\s*include\s*(?:"([^"\s]+)"|<(jitstep/[^>]+)>)', re.M)


def room_of(path):
    """The room of a file, by its folder or, for a public header, by its source's."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "include":
        name = "/".join(parts[2:])
        if name in HEADER_ONLY:
            return HEADER_ONLY[name]
        sources = list((ROOT / "src").rglob(path.stem + ".cpp"))
        sources = [s for s in sources if s.relative_to(ROOT).parts[1] == ("jit" if parts[2] == "jit" else "optim")]
        return "/".join(sources[0].relative_to(ROOT).parts[1:-1]) if sources else None
    return "/".join(parts[1:-1]) if parts[0] == "src" else parts[0]


def resolve(path, name):
    """The file that an include names; None if no such path exists."""
    own = path.relative_to(ROOT).parts[0]
    folders = [path.parent, ROOT / "include"]
    if own != "include":
        folders.append(ROOT / "src")
    if own in ("tuning", "tools", "tests"):
        folders.append(ROOT)
    if own in ("tests", "examples"):  # whose templates are read as if they lay beside the shipped ones
        folders += [ROOT / own, ROOT / "templates/rules"]
    found = [folder / name for folder in folders if (folder / name).is_file()]
    return found[0].resolve() if found else None


def files():
    for folder in ("include", "src", "templates", "tuning", "tools", "bench", "examples", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cuh"):
                yield path


def check(path, edges):
    """Yields what is wrong with the includes of a file, and counts them in `edges`."""
    text = path.read_text()
    here, room = path.relative_to(ROOT), room_of(path)
    if room not in FLOORS:
        yield f"{here}: lies in no room (tests/check_includes.py lists them)"
        return
    if room.startswith(("jit/", "emulation")) and re.search(r"#include [<\"](torch|ATen|c10)/", text):
        yield f"{here}: {room} knows no torch"
    for name in (quoted or angled for quoted, angled in OURS.findall(text)):
        target = resolve(path, name)
        if target is None:
            if name not in GENERATED:
                yield f'{here}: "{name}" is no real path'
            continue
        below = room_of(target)
        edges[room, below] += 1
        above = below in FLOORS and FLOORS.index(below) > FLOORS.index(room)
        if above or (room.startswith("optim/") and below == "emulation"):
            yield f"{here}: {room} must not know {below} ({name})"


def main():
    edges, wrong = collections.Counter(), []
    for path in files():
        wrong += check(path, edges)
    if "--graph" in sys.argv:
        for (room, below), count in sorted(edges.items(), key=lambda e: tuple(map(FLOORS.index, e[0]))):
            print(f"{room:16} -> {below:16} {count}")
    print("\n".join(wrong) or f"{sum(edges.values())} includes keep the order of {len(FLOORS)} rooms")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
