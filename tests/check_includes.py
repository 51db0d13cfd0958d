#!/usr/bin/env python3
"""Checks the dependency rule of the modules: each include is a real path, in the same module or in one below.

  check_includes.py [--graph]     --graph prints how often each module includes each other one

A quoted include is relative to the including file (templates, and programs of several files), or to src/, include/ or
tests/. Includes of tuning/ have the whole path. Only rules.h is generated. A public header includes only public
headers, src/jit and the emulation include no torch, and src/optim includes neither tuning nor the emulation. Folders of
templates include the folders in TEMPLATES only, so that a GPU's unit has no text for the CPU.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = [
    "templates",
    "jit/base",
    "jit/source",
    "jit/compiler",
    "jit/cache",
    "jit/engine",
    "jit/manifest",
    "jit/codegen",
    "jit/tuning",
    "jit/step",
    "jit/search",
    "emulation",
    "optim/tensor",
    "optim/options",
    "optim/state",
    "optim/shard",
    "optim/reports",
    "optim/optimizer",
    "optim/training",
    "tuning",
    "tools",
    "bench",
    "examples",
    "python",
    "tests",
]
# Public headers share one folder. A header belongs to the module of the source with its name. Others are listed here.
HEADER_ONLY = {
    "jit/error.h": "jit/base",
    "jit/export.h": "jit/base",
    "version.h": "jit/base",
    "jit/compiler.h": "jit/compiler",
    "hyper_params.h": "templates",
    "reports.h": "optim/reports",
    "jitstep.h": "optim/training",
    "rules.h": "optim/training",
    "sharding.h": "optim/shard",
}
GENERATED = {"jitstep/rules.h"}
# What the files of a folder of templates may include, in addition to their own folder.
TEMPLATES = {
    "lang": (),
    "formulas": ("lang",),
    "rules": ("lang", "formulas"),
    "internal": ("lang",),
    "weights": ("lang",),
    "codecs/support": ("lang",),
    "codecs": ("lang", "codecs/support"),
    "core": ("lang", "codecs/support"),
    "kernel": ("lang",),
    "kernel/tile": ("lang", "codecs/support", "kernel"),
    "kernel/loop": ("lang", "codecs/support", "kernel", "kernel/tile"),
    "kernel/check": ("lang", "kernel", "kernel/tile"),
    "kernel/step.cuh": ("kernel", "kernel/tile"),
    "kernel/step_tile.cuh": ("kernel", "kernel/tile"),
    "kernel/step_loop.cuh": ("kernel", "kernel/loop"),
}
OURS = re.compile(r'^\s*#\s*include\s*(?:"([^"\s]+)"|<(jitstep/[^>]+)>)', re.M)


def module_of(path):
    """The module of a file, by its folder or, for a public header, by its source's folder."""
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
    """The file that an include names. None if no such path exists."""
    own = path.relative_to(ROOT).parts[0]
    folders = [path.parent, ROOT / "include"]
    if own != "include":
        folders.append(ROOT / "src")
    if own in ("tuning", "tools", "bench", "tests"):
        folders.append(ROOT)
    if own in ("tests", "examples"):  # the library reads their templates as if they were in the shipped folder
        folders += [ROOT / own, ROOT / "templates/rules", ROOT / "templates/codecs"]
    found = [folder / name for folder in folders if (folder / name).is_file()]
    return found[0].resolve() if found else None


def files():
    for folder in ("include", "src", "templates", "tuning", "tools", "bench", "examples", "python", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cuh"):
                yield path


def check_template(path, target):
    """Yields an error if a template may not include another one."""
    name, folder = path.relative_to(ROOT / "templates"), target.parent.relative_to(ROOT / "templates").as_posix()
    own = name.parent.as_posix()
    if name.as_posix() in TEMPLATES:
        allowed = TEMPLATES[name.as_posix()]
    else:
        allowed = (own, *TEMPLATES.get(own, ()))
    if folder not in allowed or (target.name in ("step.cuh", "step_tile.cuh", "step_loop.cuh") and own != "kernel"):
        yield f"templates/{name}: must not include {folder}/{target.name}"


def check(path, edges):
    """Yields the errors in the includes of a file, and counts the includes in `edges`."""
    text = path.read_text()
    here, module = path.relative_to(ROOT), module_of(path)
    if module not in MODULES:
        yield f"{here}: is in no module (tests/check_includes.py lists them)"
        return
    if module.startswith(("jit/", "emulation")) and re.search(r"#include [<\"](torch|ATen|c10)/", text):
        yield f"{here}: {module} must not include torch"
    if here.parts[0] in ("src", "include") and "remove_all(" in text:
        yield f"{here}: use remove_folder instead of std::filesystem::remove_all (src/jit/base/file_io.h says why)"
    for name in (quoted or angled for quoted, angled in OURS.findall(text)):
        target = resolve(path, name)
        if target is None:
            if name not in GENERATED:
                yield f'{here}: "{name}" is not a real path'
            continue
        below = module_of(target)
        if module == below == "templates" and path.suffix == ".cuh":
            yield from check_template(path, target)
        edges[module, below] += 1
        above = below in MODULES and MODULES.index(below) > MODULES.index(module)
        if above or (module.startswith("optim/") and below == "emulation"):
            yield f"{here}: {module} must not include {below} ({name})"


def main():
    edges, wrong = collections.Counter(), []
    for path in files():
        wrong += check(path, edges)
    if "--graph" in sys.argv:
        for (module, below), count in sorted(edges.items(), key=lambda e: tuple(map(MODULES.index, e[0]))):
            print(f"{module:16} -> {below:16} {count}")
    print("\n".join(wrong) or f"{sum(edges.values())} includes keep the order of {len(MODULES)} modules")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
