#!/usr/bin/env python3
"""Draws a report of `jitstep tune --report` or `jitstep bench --plot` on one HTML page: plot_report.py IN.json OUT.html

The page has inline SVG, and needs no network and no scripts."""

import argparse
import html
import io
import itertools
import json
import sys

try:
    import matplotlib
    from matplotlib.figure import Figure
except ImportError:
    sys.exit("plot_report.py needs matplotlib. Run `pip install matplotlib`, or use .deps/venv/bin/python.")

# Okabe and Ito's colors, which color-blind readers can distinguish.
PLAIN, WINNER, BOUND, FAILED = "#0072B2", "#009E73", "#D55E00", "#CC79A7"
LOWEST, HIGHEST = 0.5, 2  # spreads do not extend the axis of trials further
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
svg {{ width: 100%; height: auto }}</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"""
TRIALS = """A dot is the median ratio of a configuration's time to the default's, in the same rounds. Its line is the
spread of that median. A dot left of the solid line is faster than the default. The dashed line is the bandwidth baseline:
a loop over the same bytes."""
RATES = """Each dot is the rate of a step as a share of the bandwidth baseline's rate in the same rounds. The line goes
from the first to the third quartile. The dashed line is the baseline."""


matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9})
figure_numbers = itertools.count()  # makes the names of definitions differ between the pictures of a page


def paragraph(text):
    return f"<p>{html.escape(text)}</p>\n"


def new_axes(rows):
    """Axes with a row of text and a dot for each of `rows`, from top to bottom."""
    figure = Figure(figsize=(10, 0.7 + 0.25 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def svg(figure):
    """The figure as an SVG element. The same numbers give the same text."""
    matplotlib.rcParams["svg.hashsalt"] = str(next(figure_numbers))
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(["Date", "Creator", "Format", "Type"]))
    text = file.getvalue()
    return text[text.index("<svg") :]


def dot(axes, row, value, low, high, color, note):
    axes.plot([low, high], [row, row], color=color)
    axes.plot(value, row, "o", color=color)
    axes.text(1.01, row, note, transform=axes.get_yaxis_transform(), va="center")


def config_text(config):
    """As the tool prints it: on the CPU, `threads` and `tile_lanes` are 1 and left out."""
    on_cpu = config["threads"] == config["tile_lanes"] == 1
    return ", ".join(
        f"{name} {value}" for name, value in config.items() if not (on_cpu and name in ("threads", "tile_lanes"))
    )


def bound_of(record, moved):
    """The time of the bandwidth baseline divided by the default's. None if one of them was not measured."""
    times = [trial["default_seconds"] for trial in record["trials"] if trial.get("rounds")]
    bandwidth = record["hardware"]["bandwidth"]
    return moved / bandwidth / times[0] if times and bandwidth else None


def draw_trials(record, bound):
    trials = sorted(record["trials"], key=lambda trial: trial["ratio"] if trial.get("rounds") else float("inf"))
    figure, axes = new_axes([config_text(trial["configuration"]) for trial in trials])
    low, high = 0.9, 1.1
    for row, trial in enumerate(trials):
        if not trial.get("rounds"):
            text = f"{trial['status']}: {trial.get('detail', '')}"
            axes.text(0.01, row, text, transform=axes.get_yaxis_transform(), va="center", color=FAILED)
            continue
        ratio, spread = trial["ratio"], trial["spread"]
        won = record["outcome"] == "won" and trial["configuration"] == record["configuration"]
        dot(
            axes,
            row,
            ratio,
            ratio - spread,
            ratio + spread,
            WINNER if won else PLAIN,
            f"{ratio:.3f} ± {spread:.3f} in {trial['rounds']} rounds",
        )
        low, high = min(low, max(ratio - spread - 0.02, LOWEST)), max(high, min(ratio + spread + 0.02, HIGHEST))
    axes.axvline(1, color="0.3", zorder=0)
    if bound and bound > 0.2:  # a line further away would flatten the rest
        axes.axvline(bound, color=BOUND, linestyle="--", zorder=0)
        low = min(low, bound - 0.05)
    axes.set_xlim(low, high)
    return svg(figure)


def verdict(record):
    if record["outcome"] == "won":
        return (
            f"{config_text(record['configuration'])} won: {record['gain']:.3f} times as fast as the default "
            f"(± {record['spread']:.3f})"
        )
    if record["outcome"] == "default":
        return "no configuration is faster than the default. The default stays"
    return "unresolved: no configuration was faster than the default by more than the noise. The default stays"


def workload_section(entry):
    out = f"<h2>{html.escape(entry['workload'])}</h2>\n"
    if "problem" in entry:
        out += paragraph(entry["problem"])
    if "record" not in entry:
        return out
    record = entry["record"]
    hardware, bound = record["hardware"], bound_of(record, entry["bytes"])
    unit = "processors" if hardware["target"] == "cpu" else "multiprocessors"
    out += paragraph(
        f"{hardware['name']}, {unit}: {hardware['units']}, {record['versions']['compiler']}, "
        f"{record['date']}, strategy {record['strategy']}"
    )
    out += paragraph(verdict(record))
    if bound:
        out += paragraph(
            f"The default reaches {100 * bound:.0f} % of the {hardware['bandwidth'] / 1e9:.1f} GB/s of the "
            "bandwidth baseline."
        )
    return out + (draw_trials(record, bound) if record["trials"] else paragraph("No configuration was tried."))


def tune_page(report):
    body = paragraph(TRIALS) + "".join(map(workload_section, report["workloads"]))
    return PAGE.format(title="jitstep tune", body=body)


def bench_page(report):
    results = [one for one in report["results"] if "problem" not in one]
    problems = [f"{one['workload']}: {one['problem']}" for one in report["results"] if "problem" in one]
    figure, axes = new_axes([one["workload"] for one in results])
    for row, one in enumerate(results):
        dot(
            axes,
            row,
            one["of_bound"],
            *one["of_bound_quartiles"],
            PLAIN,
            f"{1e3 * one['seconds']:.4f} ms, {one['bytes_per_second'] / 1e9:.1f} GB/s",
        )
    axes.axvline(1, color=BOUND, linestyle="--", zorder=0)
    axes.set_xlim(0, max([1.1, *(one["of_bound_quartiles"][1] + 0.05 for one in results)]))
    axes.xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
    machine = f"{report['machine']}, threads: {report['threads']}, rounds: {report['rounds']}, {report['date']}"
    body = paragraph(RATES) + paragraph(machine) + (svg(figure) if results else "") + "".join(map(paragraph, problems))
    return PAGE.format(title="jitstep bench", body=body)


def page_of(report):
    """The page of a report. None if the JSON is no report of schema 1."""
    if not isinstance(report, dict) or report.get("schema") != 1:
        return None
    if "results" in report:
        return bench_page(report)
    known = all("record" in entry or "problem" in entry for entry in report.get("workloads", [{}]))
    return tune_page(report) if known else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", help="JSON file of the tool")
    parser.add_argument("page", help="HTML file to write")
    arguments = parser.parse_args()
    try:
        with open(arguments.report, encoding="utf-8") as file:
            report = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"plot_report.py: cannot read {arguments.report}: {error}")
    page = page_of(report)
    if page is None:
        sys.exit(
            f"plot_report.py: {arguments.report} is not a report of schema 1. Write one with "
            "`jitstep tune --report FILE` or `jitstep bench --plot FILE`."
        )
    with open(arguments.page, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()
