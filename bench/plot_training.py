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


def draw(axes, panel):
    """Plots every seed as a point, with mean and standard error. The reference's mean and error are a band through all rows."""
    reference = panel["values"][panel["reference"]]
    middle, error = statistics.fmean(reference), error_of(reference)
    axes.axvspan(middle - error, middle + error, color=REFERENCE, alpha=0.35, linewidth=0)
    for row, values in enumerate(panel["values"].values()):
        if is_far(values, panel):
            axes.text(0.99, row, f"{statistics.fmean(values):.3f} \N{RIGHTWARDS ARROW}", transform=axes.get_yaxis_transform(),
                      ha="right", va="center", fontsize=7, color=MEAN)
            continue
        axes.plot(values, [row] * len(values), "o", color=SEED, markersize=3, alpha=0.7)
        axes.errorbar(statistics.fmean(values), row, xerr=error_of(values), fmt="|", color=MEAN, capsize=3)
    axes.set_yticks(range(len(panel["values"])), panel["values"])
    axes.set_title(panel["title"], fontsize=9)
    axes.tick_params(labelsize=7)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def main():
    panels = json.load(sys.stdin)
    plt.rcParams["svg.hashsalt"] = "training"  # so that the same numbers give the same file
    rows = max(len(panel["values"]) for panel in panels)
    figure, grid = plt.subplots(1, len(panels), figsize=(5 * len(panels), 1.2 + 0.24 * rows), squeeze=False, layout="constrained")
    for axes, panel in zip(grid[0], panels):
        draw(axes, panel)
    figure.suptitle("Seeds, and their mean and standard error; grey: that of fp32", fontsize=9)
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
