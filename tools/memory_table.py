#!/usr/bin/env python3
"""Writes the example and the table of docs/guides/memory.md: bytes per parameter of jitstep and of other libraries.

  tools/memory_table.py            # rewrites the part of the page between two marks
  tools/memory_table.py --check    # exits with status 1 if the page is not current

jitstep's figures come from `jitstep memory`. Those of other libraries come from bench/results/library_memory.json,
which bench/library_memory.py measures. Libraries that were not run are counted by hand from a file of their source.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- written by tools/memory_table.py: -->\n"
END = "<!-- the end of what tools/memory_table.py writes -->\n"

# Bytes counted by hand: parameter + gradient + master weight or residual + both moments with their scales.
BY_HAND = {
    "Apex FusedAdam, master weights": (2 + 2 + 4 + 8, "NVIDIA/apex: apex/optimizers/fused_adam.py"),
    "Apex DistributedFusedAdam, remainders": (2 + 2 + 2 + 8, "apex/contrib/optimizers/distributed_fused_adam.py"),
    "optimi AdamW": (2 + 2 + 2 + 4, "warner-benjamin/optimi: docs/kahan_summation.md"),
    "FlashOptim FlashAdamW": (2 + 2 + 1 + 2 * (1 + 2 / 32), "databricks/flashoptim: flashoptim/optimizers.py"),
    "FlashOptim FlashLion": (2 + 2 + 1 + 1 + 2 / 32, "databricks/flashoptim: flashoptim/optimizers.py"),
    "lpmm AdamW, factored": (4 + 4 + (0.5 + 4 / 128) + 2 * 4 / 1024, "thu-ml/low-bit-optimizers: lpmm/optim/adamw.py"),
    "COAT CoatAdamW": (4 + 4 + 2 * (1 + 3 * 4 / 128), "NVlabs/COAT: coat/optimizer/fp8_adamw.py"),
}
# Arguments of `jitstep memory`, then other libraries with comparable formats: counted by hand, or measured with the
# same parameter dtype.
ROWS = [
    ("--rule adamw", ["torch AdamW", "deepspeed DeepSpeedCPUAdam"]),
    ("--rule adamw --weights master", ["Apex FusedAdam, master weights"]),
    ("--rule adamw --weights split16", ["Apex DistributedFusedAdam, remainders"]),
    ("--rule adamw --state fp8_expanded", ["COAT CoatAdamW"]),
    ("--rule adamw --state int8", ["torchao AdamW8bit", "bitsandbytes AdamW8bit"]),
    ("--rule adamw --state fp8", ["torchao AdamWFp8"]),
    ("--rule adamw --weights kahan --state bf16", ["adamw-bf16 AdamWBF16", "optimi AdamW"]),
    ("--rule adamw --state int4", ["torchao AdamW4bit"]),
    ("--rule adamw --state factored", ["lpmm AdamW, factored"]),
    ("--rule adamw --weights split16 --state int8", []),
    ("--rule adamw --weights stochastic --state bf16_sr", ["torchastic AdamW", "torch AdamW"]),
    ("--rule adamw --weights split8 --state int8_softsign", ["FlashOptim FlashAdamW"]),
    ("--rule adamw --weights split16 --state int4", []),
    ("--rule adamw --weights stochastic --state int8", ["torchao AdamW8bit", "bitsandbytes AdamW8bit"]),
    ("--rule adamw --weights stochastic --state int4", ["torchao AdamW4bit"]),
    ("--rule lion --weights split8 --state int8_softsign", ["FlashOptim FlashLion"]),
    ("--rule lion --weights stochastic --state int8", ["bitsandbytes Lion8bit"]),
    ("--rule lamb", ["pytorch-lamb Lamb"]),
    ("--rule lamb16 --weights split16", []),
    ("--rule adafactor --weights stochastic", []),
]
EXAMPLE = "--params 7B --rule adamw --state int4 --weights split16"
NOTE = """
All figures are for matrices of 1024 x 1024, with gradients in the parameters' dtype. `bench/library_memory.py` measured other libraries on {date}
({versions}).
Libraries with * were not run. Their bytes are counted by hand from these files:
{files}.
With torch's autocast, AdamW has the same float32 state.
"""


def plan(tool, arguments):
    command = [tool, "memory", *arguments.split()]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def part(planned, *beginnings):
    """Bytes per parameter of all parts whose names start with one of these. Empty for 0 bytes."""
    figure = sum(p["bytes_per_parameter"] for p in planned["parts"] if p["what"].startswith(beginnings))
    return f"{figure:.2f}" if figure else ""


def others(names, dtype, measured):
    """The other libraries with their bytes per parameter."""
    cells = []
    for name in names:
        if name in BY_HAND:
            cells.append(f"{name}* {BY_HAND[name][0]:.2f}")
            continue
        row = next(r for r in measured["rows"] if (r["name"], r["dtype"]) == (name, dtype))
        total = sum(row[kind] for kind in ("parameter_bytes", "gradient_bytes", "state_bytes"))
        cells.append(f"{name} {total / row['elements']:.2f}")
    return ", ".join(cells)


def line(tool, arguments, names, measured):
    planned = json.loads(plan(tool, f"--params 7B {arguments} --json"))
    cells = [
        f"`{arguments}`",
        part(planned, "parameters"),
        part(planned, "gradients"),
        part(planned, "weight residual"),
        part(planned, "state", "scales", "auxiliary state", "shared state"),
        f"{planned['bytes_per_parameter']:.2f}",
        f"{planned['bytes'] / 2**30:.1f}",
        others(names, planned["parameter_dtype"], measured),
    ]
    return "| " + " | ".join(cells) + " |\n"


def written(tool):
    measured = json.loads((ROOT / "bench/results/library_memory.json").read_text())
    example = f"```\n$ jitstep memory {EXAMPLE}\n{plan(tool, EXAMPLE)}```\n\n"
    head = (
        "| `jitstep memory` | parameter | gradient | residual | state | bytes/parameter | 7B, GiB | other libraries |\n"
    )
    rows = [line(tool, arguments, names, measured) for arguments, names in ROWS]
    versions = ", ".join(dict.fromkeys(f"{r['name'].split()[0]} {r['version']}" for r in measured["rows"]))
    files = ", ".join(dict.fromkeys(f"`{file}`" for _, file in BY_HAND.values()))
    note = NOTE.format(date=measured["date"], versions=versions, files=files)
    return example + head + "|---" * 8 + "|\n" + "".join(rows) + note


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default=ROOT / "build/tools/jitstep", help="path of the program jitstep")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/guides/memory.md", help="the page to write")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if the page is not current")
    arguments = parser.parse_args()
    page = arguments.page.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{arguments.page} lacks the two marks around the table:\n{BEGIN}{END}")
    current = before + begin + written(str(arguments.tool)) + end + after
    if arguments.check and page != current:
        sys.exit(f"the table of {arguments.page} is not current. Run tools/memory_table.py.")
    if not arguments.check:
        arguments.page.write_text(current)


if __name__ == "__main__":
    main()
