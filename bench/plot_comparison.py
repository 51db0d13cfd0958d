#!/usr/bin/env python3
"""Draws what bench/compare.py measured, parameters per second on the workload with the most of them: plot_comparison.py IN.json OUT.svg"""
import json
import statistics
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot_comparison.py needs matplotlib: pip install matplotlib, or .deps/venv/bin/python")

# Okabe and Ito's colours, which colour-blind readers can tell apart.
FLOOR, OURS, THEIRS = "#999999", "#0072B2", "#E69F00"


def colour(name):
    if name.startswith("walk"):
        return FLOOR
    return OURS if name.startswith("jitstep") else THEIRS


def draw(axes, heat):
    rows = [row for row in heat["rows"] if "reason" not in row][::-1]
    rates = [heat["elements"] / statistics.median(row["seconds"]) / 1e6 for row in rows]
    bars = axes.barh([row["name"] for row in rows], rates, color=[colour(row["name"]) for row in rows])
    axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=7)
    axes.set_title(heat["heat"], fontsize=9)
    axes.tick_params(labelsize=7)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)


def main():
    with open(sys.argv[1]) as file:
        result = json.load(file)
    heats = [heat for heat in result["heats"] if "rows" in heat]
    largest = max(heats, key=lambda heat: heat["elements"])["workload"]
    heats = [heat for heat in heats if heat["workload"] == largest]
    plt.rcParams["svg.hashsalt"] = "peers"  # the same file from the same numbers
    rows = (len(heats) + 1) // 2
    figure, grid = plt.subplots(rows, 2, figsize=(11, 3 * rows), squeeze=False, layout="constrained")
    for axes, heat in zip(grid.flat, heats):
        draw(axes, heat)
    for axes in grid.flat[len(heats):]:
        axes.set_axis_off()
    title = f"Million parameters per second: {heats[0]['title']}"
    figure.suptitle(f"{title}\n{result['machine']}, {result['settings']['threads']} threads, {result['date']}", fontsize=10)
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
