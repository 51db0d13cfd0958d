"""The page of what bench/compare.py measured: figures and tables."""
import os
import statistics

from peer_heats import AIMS, FUSED, HEATS, LOOP

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
There are {rounds} rounds, and {least} for implementations that took more than {seconds:g} s.
Figures are medians of the rounds. Ratios are medians of the rounds' own ratios.

| column | meaning |
|---|---|
| Mparam/s | million parameters per second |
| % of bound | share of the bandwidth baseline's speed. The baseline ("walk, 28 bytes") is a plain loop over the bytes that such a step must read and write |
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


def ratio(row, reference):
    """How many times as fast as the reference: the median over the rounds that both took part in."""
    return statistics.median(r / own for own, r in zip(row["seconds"], reference["seconds"]))


def figures(row, rows, elements):
    """What the table says of a measured row; None for a ratio to something that was not measured."""
    measured = {one["name"]: one for one in rows if "reason" not in one}

    def to(name):
        return ratio(row, measured[name]) if name in measured else None

    return {
        "parameters_per_second": elements / statistics.median(row["seconds"]),
        "of_walk": to(row["walk"]),
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
        return f"| {row['name']} | not measured: {row['reason']} | | | | | | |"
    of = figures(row, rows, elements)
    cells = [
        row["name"],
        cell(of["parameters_per_second"] / 1e6, "{:.0f}" if of["parameters_per_second"] > 1e8 else "{:.1f}"),
        cell(of["of_walk"], "{:.0%}"),
        cell(of["to_loop"], "{:.2f}"),
        cell(of["to_fused"], "{:.2f}"),
        cell(of["state"], "{:.2f}"),
        cell(of["extra"], "{:.1f}"),
        cell(of["cores"], "{:.1f}"),
    ]
    return "| " + " | ".join(cells) + " |"


def pairs(heat):
    measured = {row["name"]: row for row in heat["rows"] if "reason" not in row}
    for slow, fast in HEATS[heat["heat"]]["pairs"]:
        if slow in measured and fast in measured:
            times = ratio(measured[fast], measured[slow])
            yield f"{slow} takes {times:.2f} times as long as {fast}."


def tables(heat):
    title = ["", f"### {heat['heat']}", ""]
    if "reason" in heat:
        return title + [f"Not measured: {heat['reason']}."]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += [line(row, heat["rows"], heat["elements"]) for row in heat["rows"]]
    said = list(pairs(heat))
    return title + lines + ([""] + said if said else [])


def measured_pair(heats, workload, name, row, reference):
    """The two rows of an aim; None if one was not measured."""
    for heat in heats:
        if heat["workload"] == workload and heat["heat"] == name:
            rows = {one["name"]: one for one in heat.get("rows", []) if "reason" not in one}
            return (rows[row], rows[reference]) if row in rows and reference in rows else None
    return None


def aims(heats):
    """A table of targets: the speed relative to another row, and how much of the target was reached."""
    lines = ["", "## Targets", "",
             "| case | implementation | relative to | target | measured | |", "|---|---|---|---|---|---|"]
    for workload, heat, row, reference, aim, limit in AIMS:
        pair = measured_pair(heats, workload, heat, row, reference)
        if pair is None:
            said = ["", "not measured"]
        else:
            times = ratio(*pair)
            said = [f"{times:.2f}", "reached" if times >= aim else f"{times / aim:.0%} of it: {limit}"]
        lines.append("| " + " | ".join([workload.replace("_", " "), row, reference, f"{aim:.2f}"] + said) + " |")
    return lines


def packages(heats):
    return sorted({row["package"] for heat in heats for row in heat.get("rows", []) if row.get("package")})


def page(result, numbers, page_path):
    """Markdown: a chapter for each workload, a table for each heat."""
    settings, loads = result["settings"], result["load_average"]
    lines = [HEAD.format(
        numbers=os.path.relpath(numbers, page_path.parent), plot=page_path.with_suffix(".svg").name,
        machine=result["machine"], date=result["date"], revision=result["revision"], threads=settings["threads"],
        load=f"{min(loads):.1f} to {max(loads):.1f}", rounds=settings["rounds"], least=settings["least_rounds"],
        seconds=settings["seconds"],
    )]
    lines.append(f"Packages: {', '.join(packages(result['heats']))}.")
    lines += aims(result["heats"])
    chapter = None
    for heat in result["heats"]:
        if heat["title"] != chapter:
            chapter = heat["title"]
            lines += ["", f"## {chapter[0].upper()}{chapter[1:]}"]
        lines += tables(heat)
    return "\n".join(lines) + "\n"
