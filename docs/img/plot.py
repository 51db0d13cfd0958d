#!/usr/bin/env python3
"""Draws the plots of the documentation.

  docs/img/plot.py [--tool build/tools/jitstep] [NAME...]    writes NAME.svg (default: all) to this folder

step_time   the newest result of bench/compare.py for the tensors of GPT-2 small
memory_7b   `jitstep memory` for a model with 7 billion parameters
accuracy    results of bench/training.py: bytes per parameter and loss of each state format

Needs matplotlib. architecture.svg is written by hand.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import training

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "jitstep",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
OURS, THEIRS, BOUND = "#2b6cb0", "#dd8452", "#a0aec0"
# Title of the comparison, and a label for each implementation that is shown.
COMPARISON = "GPT-2 small"
SHOWN = {
    "torch::optim::AdamW": "torch::optim::AdamW",
    "torch fused (at::_fused_adamw_)": "torch, fused kernel",
    "jitstep AdamW": "jitstep, fp32 state",
    "jitstep AdamW bf16": None,
    "jitstep AdamW int8": "jitstep, int8 state",
    "jitstep AdamW int4": "jitstep, int4 state",
    "bitsandbytes AdamW8bit": "bitsandbytes, 8-bit",
    "torchao AdamW8bit, compiled": "torchao, 8-bit",
    "torchao AdamW4bit, compiled": "torchao, 4-bit",
}
MEMORY = [
    ("torch AdamW, float32", "--rule adamw"),
    ("bfloat16, split16, int8", "--rule adamw --weights split16 --state int8"),
    ("bfloat16, split16, int4", "--rule adamw --weights split16 --state int4"),
    ("bfloat16, stochastic, int4", "--rule adamw --weights stochastic --state int4"),
]
KINDS = [
    ("parameters", ("parameters",), "#4a5568"),
    ("gradients", ("gradients",), BOUND),
    ("weight residual", ("weight residual",), THEIRS),
    ("optimizer state", ("state", "scales", "auxiliary state", "shared state"), OURS),
]


MOST_CHANGE = 3  # in %: the accuracy plot leaves out larger ones


def newest_result():
    """The newest result of bench/compare.py."""
    files = (ROOT / "bench/results").glob("20*-cores.json")
    return json.loads(max(files).read_text())


def step_times():
    """(label, milliseconds) of the implementations that are shown, the slowest first."""
    for case in newest_result()["cases"]:
        names = {c["name"]: c for c in case.get("rows", [])}
        if case["title"].startswith(COMPARISON) and "jitstep AdamW int4" in names and "jitstep AdamW int8" in names:
            rows = [
                (label, statistics.median(names[name]["seconds"]) * 1e3)
                for name, label in SHOWN.items()
                if label and "seconds" in names.get(name, {})
            ]
            return sorted(rows, key=lambda row: -row[1])
    raise SystemExit("no result of bench/compare.py has GPT-2 small with int8 and int4 state")


def draw_step_time():
    rows = step_times()
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    bars = axes.barh(
        [label for label, _ in rows],
        [ms for _, ms in rows],
        color=[OURS if label.startswith("jitstep") else THEIRS for label, _ in rows],
    )
    axes.bar_label(bars, fmt="%.0f", padding=3)
    axes.set_xscale("log")
    axes.set_xlim(10, 10000)
    axes.set_xlabel("milliseconds per step of AdamW, GPT-2 small")
    figure.savefig(HERE / "step_time.svg", metadata={"Date": None})


def gib(planned, beginnings):
    return sum(part["bytes"] for part in planned["parts"] if part["what"].startswith(beginnings)) / 2**30


def draw_memory(tool):
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for row, (label, words) in enumerate(reversed(MEMORY)):
        command = [tool, "memory", "--params", "7B", *words.split(), "--json"]
        planned = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        left = 0.0
        for kind, beginnings, color in KINDS:
            width = gib(planned, beginnings)
            axes.barh(label, width, left=left, color=color, label=kind if row == 0 else None)
            left += width
        axes.text(left, row, f" {left:.0f}", va="center")
    axes.set_xlabel("GiB, AdamW and 7B parameters")
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(HERE / "memory_7b.svg", metadata={"Date": None})


def training_losses():
    """Test losses of the text task by state format and seed, and bytes per parameter: parameter and state."""
    results = training.by_format(training.read_results(training.PUBLISHED), training.parse_arguments([]))
    of = {name: runs for name, runs in results["char_transformer"].items() if runs[0]["dtype"] == "float32"}
    losses = {name: {run["seed"]: run["test_loss"] for run in runs} for name, runs in of.items()}
    return losses, {name: training.size(runs) for name, runs in of.items()}


def draw_accuracy():
    losses, size = training_losses()
    labels, seeds = [], set()
    figure, axes = plt.subplots(figsize=(7, 3.9), layout="constrained")
    axes.axvline(0, color=BOUND, linewidth=1)
    for name in sorted(losses, key=size.get):
        shared = [seed for seed, loss in losses[name].items() if loss is not None and losses["fp32"].get(seed)]
        if len(shared) < 2:
            continue  # no standard error
        changes = [100 * (losses[name][seed] / losses["fp32"][seed] - 1) for seed in shared]
        mean, error = statistics.fmean(changes), statistics.stdev(changes) / len(changes) ** 0.5
        if mean > MOST_CHANGE:
            continue  # fp8_norm would flatten all others
        axes.errorbar(mean, len(labels), xerr=error, fmt="o", markersize=5, capsize=3, color=OURS)
        labels.append(f"{name}   {size[name]:.2f}")
        seeds.add(len(shared))
    if not labels:
        sys.exit(f"{training.PUBLISHED} has no format with two seeds")
    axes.set_yticks(range(len(labels)), labels, fontsize=9)
    axes.invert_yaxis()
    axes.set_title("state format, bytes per parameter", fontsize=9, loc="left", x=-0.25)
    axes.set_xlabel(
        f"change of the test loss from fp32, in % (mean and standard error of {min(seeds)} seeds)", fontsize=9
    )
    figure.savefig(HERE / "accuracy.svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default=str(ROOT / "build/tools/jitstep"), help="the tool, as it is built")
    parser.add_argument("names", nargs="*", metavar="NAME", help="step_time, memory_7b, accuracy")
    arguments = parser.parse_args()
    pictures = {
        "step_time": draw_step_time,
        "memory_7b": lambda: draw_memory(arguments.tool),
        "accuracy": draw_accuracy,
    }
    for name in arguments.names or pictures:
        if name not in pictures:
            parser.error(f"no picture {name}; there are {', '.join(pictures)}")
        with plt.rc_context(STYLE):
            pictures[name]()


if __name__ == "__main__":
    main()
