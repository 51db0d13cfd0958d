#!/usr/bin/env python3
"""Plots the results of bench/compare.py, parameters per second on the largest workload: plot_comparison.py IN.json
OUT.svg"""

import json
import statistics
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot_comparison.py needs matplotlib. Run `pip install matplotlib`, or use .deps/venv/bin/python.")

# Okabe and Ito's colors, which color-blind readers can distinguish.
BASELINE, JITSTEP, OTHERS = "#999999", "#0072B2", "#E69F00"


def color(name):
    if name.startswith("bandwidth baseline"):
        return BASELINE
    return JITSTEP if name.startswith("jitstep") else OTHERS


def draw(axes, case):
    rows = [row for row in case["rows"] if "reason" not in row][::-1]
    rates = [case["elements"] / statistics.median(row["seconds"]) / 1e6 for row in rows]
    bars = axes.barh([row["name"] for row in rows], rates, color=[color(row["name"]) for row in rows])
    axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=7)
    axes.set_title(case["case"], fontsize=9)
    axes.set_xticks([])  # each bar has its number
    axes.tick_params(labelsize=7, left=False)
    axes.margins(x=0.12)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def main():
    with open(sys.argv[1]) as file:
        result = json.load(file)
    cases = [case for case in result["cases"] if "rows" in case]
    largest = max(cases, key=lambda case: case["elements"])["workload"]
    cases = [case for case in cases if case["workload"] == largest]
    # Text stays text, which is small, and the same numbers give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "comparison", "font.sans-serif": ["DejaVu Sans"]})
    rows = (len(cases) + 1) // 2
    figure, grid = plt.subplots(rows, 2, figsize=(11, 3 * rows), squeeze=False, layout="constrained")
    for axes, case in zip(grid.flat, cases):
        draw(axes, case)
    for axes in grid.flat[len(cases) :]:
        axes.set_axis_off()
    title = f"Million parameters per second: {cases[0]['title']}"
    figure.suptitle(
        f"{title}\n{result['machine']}, {result['settings']['threads']} threads, {result['date']}", fontsize=10
    )
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
