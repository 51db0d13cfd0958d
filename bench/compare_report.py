"""Writes the page with the results of bench/compare.py."""

import os
import re
import statistics

from comparison_cases import CASES, FUSED, LOOP, TARGETS

HEAD = """# Measurements of jitstep and other libraries on the CPU

| | |
|---|---|
| command | `bench/compare.py` |
| machine | {machine} |
| date, revision | {date}, `{revision}` |
| threads | {threads}, for every implementation |
| load before a case | {load} |
| numbers | [JSON]({numbers}) |
| plot | [{plot}]({plot}) |

In each round every implementation takes one step in turn, on parameters of the same shapes and values.
There are {rounds} rounds. Implementations stop after {seconds:g} s, but not before {least} rounds.
Figures are medians of the rounds. Ratios are medians of the ratios in each round.

| column | meaning |
|---|---|
| Mparam/s | million parameters per second |
| % of bound | share of the bandwidth baseline's speed. The baseline is a plain loop over the bytes that such a step must read and write |
| loop | speed relative to `torch::optim::AdamW` in the same case |
| fused | speed relative to torch's fused kernel in the same case |
| state, B | bytes per parameter that stay from step to step |
| extra, B | bytes per parameter that a step allocates while it runs |
| cores | processor time divided by time. Threads that wait may count |

28 bytes per parameter are float32 weights, gradient and two state buffers. 20, 16 and 14 bytes have state of 16, 8 and 4 bits.
In bfloat16, 14 bytes have two state buffers and 18 bytes have three.

jitstep, torchao and bitsandbytes store float32 state for tensors of fewer than 4096 elements.
So there is nothing to compare for smaller formats on such tensors.
"""
COLUMNS = ["", "Mparam/s", "% of bound", "loop", "fused", "state, B", "extra, B", "cores"]


def published(reason):
    """The reason without the messages of pip and names of exceptions. They are in the JSON file."""
    reason = re.sub(r"^(pip cannot install it):.*", r"\1", reason, flags=re.S)
    return re.sub(r"^\w+Error: (.*?)\.?$", r"\1", reason, flags=re.S)


def ratio(row, reference):
    """How many times as fast as the reference: the median over the rounds of both."""
    return statistics.median(r / own for own, r in zip(row["seconds"], reference["seconds"]))


def figures(row, rows, elements):
    """The table's figures of a measured row. A ratio is None if the other row was not measured."""
    measured = {one["name"]: one for one in rows if "reason" not in one}

    def to(name):
        return ratio(row, measured[name]) if name in measured else None

    return {
        "parameters_per_second": elements / statistics.median(row["seconds"]),
        "of_bound": to(row["bound"]),
        "to_loop": to(LOOP),
        "to_fused": to(FUSED),
        "state": row["state_bytes"] / elements,
        "extra": None if row["extra_bytes"] is None else row["extra_bytes"] / elements,
        "cores": statistics.median(c / s for c, s in zip(row["cpu_seconds"], row["seconds"])),
    }


def cell(value, form):
    return "" if value is None else form.format(value)


def line(row, rows, elements):
    if "reason" in row:
        return f"| {row['name']} | not measured: {published(row['reason'])} | | | | | | |"
    of = figures(row, rows, elements)
    cells = [
        row["name"],
        cell(of["parameters_per_second"] / 1e6, "{:.0f}" if of["parameters_per_second"] > 1e8 else "{:.1f}"),
        cell(of["of_bound"], "{:.0%}"),
        cell(of["to_loop"], "{:.2f}"),
        cell(of["to_fused"], "{:.2f}"),
        cell(of["state"], "{:.2f}"),
        cell(of["extra"], "{:.1f}"),
        cell(of["cores"], "{:.1f}"),
    ]
    return "| " + " | ".join(cells) + " |"


def pairs(case):
    measured = {row["name"]: row for row in case["rows"] if "reason" not in row}
    for slow, fast in CASES[case["case"]]["pairs"]:
        if slow in measured and fast in measured:
            times = ratio(measured[fast], measured[slow])
            yield f"{slow} takes {times:.2f} times as long as {fast}."


def tables(case):
    title = ["", f"### {case['case']}", ""]
    if "reason" in case:
        return title + [f"Not measured: {case['reason']}."]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += [line(row, case["rows"], case["elements"]) for row in case["rows"]]
    sentences = list(pairs(case))
    return title + lines + ([""] + sentences if sentences else [])


def measured_pair(cases, workload, name, row, reference):
    """The two rows of a target. None if one was not measured."""
    for case in cases:
        if case["workload"] == workload and case["case"] == name:
            rows = {one["name"]: one for one in case.get("rows", []) if "reason" not in one}
            return (rows[row], rows[reference]) if row in rows and reference in rows else None
    return None


def targets(cases):
    """A table of targets: the speed relative to another row, and how much of the target was reached."""
    lines = [
        "",
        "## Targets",
        "",
        "| case | implementation | relative to | target | measured | |",
        "|---|---|---|---|---|---|",
    ]
    for workload, case, row, reference, target, limit in TARGETS:
        pair = measured_pair(cases, workload, case, row, reference)
        if pair is None:
            result = ["", "not measured"]
        else:
            times = ratio(*pair)
            result = [f"{times:.2f}", "reached" if times >= target else f"{times / target:.0%} of it: {limit}"]
        lines.append("| " + " | ".join([workload.replace("_", " "), row, reference, f"{target:.2f}"] + result) + " |")
    return lines


def packages(cases):
    return sorted({row["package"] for case in cases for row in case.get("rows", []) if row.get("package")})


def page(result, numbers, page_path):
    """Markdown with a chapter for each workload and a table for each case."""
    settings, loads = result["settings"], result["load_average"]
    lines = [
        HEAD.format(
            numbers=os.path.relpath(numbers, page_path.parent),
            plot=page_path.with_suffix(".svg").name,
            machine=result["machine"],
            date=result["date"],
            revision=result["revision"],
            threads=settings["threads"],
            load=f"{min(loads):.1f} to {max(loads):.1f}",
            rounds=settings["rounds"],
            least=settings["least_rounds"],
            seconds=settings["seconds"],
        )
    ]
    lines.append(f"Packages: {', '.join(packages(result['cases']))}.")
    lines += targets(result["cases"])
    chapter = None
    for case in result["cases"]:
        if case["title"] != chapter:
            chapter = case["title"]
            lines += ["", f"## {chapter[0].upper()}{chapter[1:]}"]
        lines += tables(case)
    return "\n".join(lines) + "\n"
