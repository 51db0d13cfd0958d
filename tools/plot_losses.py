#!/usr/bin/env python3
"""Plots the loss curves that the example fashion_mnist wrote: plot_losses.py IN.json OUT.png"""

import argparse
import json
import math
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot_losses.py needs matplotlib. Run `pip install matplotlib`, or use .deps/venv/bin/python.")

# Okabe and Ito's colors, which color-blind readers can distinguish.
COLOURS = ["#000000", "#E69F00", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"]


def smooth(losses, keep):
    """Exponential mean with bias correction. A missing value gives a gap."""
    result, mean, weight = [], 0.0, 0.0
    for loss in losses:
        if loss is None or not math.isfinite(loss):
            result.append(math.nan)
            continue
        mean = keep * mean + (1 - keep) * loss
        weight = keep * weight + (1 - keep)
        result.append(mean / weight)
    return result


def label(run):
    return f"{run['name']}: {run['state_bytes_per_parameter']:.2f} B/parameter, {100 * run['test_accuracy']:.1f} %"


def draw_curves(axes, runs, keep):
    """Curves may overlap. Each later line is thinner, so that all remain visible."""
    for i, run in enumerate(runs):
        steps = range(1, len(run["losses"]) + 1)
        axes.plot(
            steps,
            smooth(run["losses"], keep),
            color=COLOURS[i % len(COLOURS)],
            linewidth=max(1.0, 3.4 - 0.7 * i),
            linestyle="--" if i >= len(COLOURS) else "-",
            label=label(run),
        )


def draw_differences(axes, runs, keep):
    """The difference between each run and the first, which is too small to see in the upper plot."""
    first = smooth(runs[0]["losses"], keep)
    axes.axhline(0, color=COLOURS[0], linewidth=1)
    settled = [0.01]
    for i, run in enumerate(runs[1:], start=1):
        pairs = zip(smooth(run["losses"], keep), first)
        distance = [ours - theirs for ours, theirs in pairs]
        steps = range(1, len(distance) + 1)
        axes.plot(steps, distance, color=COLOURS[i % len(COLOURS)], linewidth=1.2)
        settled += [abs(d) for d in distance[len(distance) // 4 :] if math.isfinite(d)]
    # The limits ignore the first quarter, because its large values would flatten the rest. It may leave the frame.
    limit = 1.2 * max(settled)
    axes.set_ylim(-limit, limit)
    axes.set_ylabel(f"minus {runs[0]['name']}")


def title(settings):
    text = f"Fashion-MNIST, batch {settings['batch']}, seed {settings['seed']}"
    text += f", first {settings['limit']} images" if settings["limit"] else ""
    return f"{text}, {settings['device']}"


def draw(report, keep, path):
    runs = report["runs"]
    compare = len(runs) > 1
    figure, axes = plt.subplots(
        2 if compare else 1,
        1,
        sharex=True,
        squeeze=False,
        figsize=(9, 7 if compare else 5),
        height_ratios=[3, 1] if compare else [1],
        layout="constrained",
    )
    top, bottom = axes[0][0], axes[-1][0]
    draw_curves(top, runs, keep)
    top.set_yscale("log")
    top.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    top.yaxis.set_minor_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    top.set_ylabel(f"training loss (exponential mean, {keep:g})")
    top.set_title(title(report["settings"]))
    top.legend(title="optimizer: state, test accuracy", frameon=False)
    if compare:
        draw_differences(bottom, runs, keep)
    for one in {top, bottom}:
        one.grid(True, which="both", color="0.9")
        one.spines[["top", "right"]].set_visible(False)
    bottom.set_xlabel("step")
    figure.savefig(path, dpi=150)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"plot_losses.py: cannot read {path}: {error}")
    if report.get("schema") != 1 or not report.get("runs"):
        sys.exit(f"plot_losses.py: {path} is not a report of the fashion_mnist example (schema 1)")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", help="fashion_mnist.json")
    parser.add_argument("picture", help="the image to write, such as losses.png")
    parser.add_argument("--smooth", type=float, default=0.95, help="decay of the exponential mean (default: 0.95)")
    arguments = parser.parse_args()
    if not 0 <= arguments.smooth < 1:
        parser.error("--smooth: expected a number in [0, 1)")
    draw(read(arguments.report), arguments.smooth, arguments.picture)
    print(f"Wrote {arguments.picture}")


if __name__ == "__main__":
    main()
