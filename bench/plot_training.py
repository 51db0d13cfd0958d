#!/usr/bin/env python3
"""Plots the results of bench/training.py, a panel for each task: plot_training.py OUT.svg <PANELS.json

PANELS.json is a list of {"title", "reference", "values": {format: [one number per seed]}}.
"""

import json
import statistics
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot_training.py needs matplotlib. Run `pip install matplotlib`, or use .deps/venv/bin/python.")

# Okabe and Ito's colors, which color-blind readers can distinguish.
REFERENCE, SEED, MEAN = "#999999", "#56B4E9", "#D55E00"


def error_of(values):
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0


def is_far(values, panel):
    """Whether a row is so far away that the others would not be readable. Such a row is printed as a number."""
    middle = statistics.fmean(panel["values"][panel["reference"]])
    distances = [abs(statistics.fmean(row) - middle) for row in panel["values"].values()]
    return abs(statistics.fmean(values) - middle) > 10 * statistics.median(distances)


def dots(points):
    """The points as one line of lengthless segments, which round caps make visible: a fifth of the bytes of markers."""
    nothing = float("nan")
    return [c for x, _ in points for c in (x, x, nothing)], [c for _, y in points for c in (y, y, nothing)]


def draw(axes, panel):
    """Plots every seed as a point, with mean and standard error. The reference's mean and error are a band through all
    rows."""
    reference = panel["values"][panel["reference"]]
    middle, error = statistics.fmean(reference), error_of(reference)
    axes.axvspan(middle - error, middle + error, color=REFERENCE, alpha=0.35, linewidth=0)
    near = {}
    for row, values in enumerate(panel["values"].values()):
        if is_far(values, panel):
            axes.text(
                0.99,
                row,
                f"{statistics.fmean(values):.3f} \N{RIGHTWARDS ARROW}",
                transform=axes.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=7,
                color=MEAN,
            )
            continue
        near[row] = values
    axes.plot(
        *dots([(x, row) for row, values in near.items() for x in values]),
        color=SEED,
        linewidth=4,
        solid_capstyle="round",
        alpha=0.7,
    )
    axes.errorbar(
        [statistics.fmean(values) for values in near.values()],
        list(near),
        xerr=[error_of(v) for v in near.values()],
        fmt="|",
        color=MEAN,
        capsize=3,
    )
    axes.set_yticks(range(len(panel["values"])), panel["values"])
    axes.set_title(panel["title"], fontsize=9)
    axes.tick_params(labelsize=7, left=False)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def main():
    panels = json.load(sys.stdin)
    # Text stays text, which is small, and the same numbers give the same file.
    plt.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "training", "font.sans-serif": ["DejaVu Sans"], "path.simplify": False}
    )  # simplifying would remove the dots
    rows = max(len(panel["values"]) for panel in panels)
    figure, grid = plt.subplots(
        1, len(panels), figsize=(5 * len(panels), 1.2 + 0.24 * rows), squeeze=False, layout="constrained"
    )
    for axes, panel in zip(grid[0], panels):
        draw(axes, panel)
    figure.suptitle("Seeds, and their mean and standard error; gray: that of fp32", fontsize=9)
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
