#!/usr/bin/env python3
"""Compares every state format, two mixtures by slot and every weight format with float32, on Fashion-MNIST and text
(AdamW).

  bench/training.py            # takes hours; each finished run adds a line to the results, and the next call continues
  bench/training.py --table    # only writes the table and the plot of existing results

It uses the programs examples/fashion_mnist and examples/char_transformer. --seeds, --task, --format, --limit and
--steps select fewer runs. Weight formats are tested with bfloat16 parameters and float32 state. Networks compute in
float32 for all formats.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from training_runs import ROOT, mean_and_error, read_results, run_missing, standard_error, where_and_when

REFERENCE = "fp32"
MIXED = [{"m": "int8", "v": "int4"}, {"m": "int4", "v": "int8"}]  # six bits per value on average
RATES = {"fashion_mnist": 1e-3, "char_transformer": 2e-3}
TITLES = {"fashion_mnist": "Fashion-MNIST", "char_transformer": "text"}
# The compared measures: name in the results, column of the table, factor, digits, and 1 if larger is better, else -1.
MEASURES = [("test_accuracy", "accuracy, %", 100, 2, 1), ("test_loss", "loss", 1, 4, -1)]


def builtin(role):
    return sorted(path.stem for path in (ROOT / "templates" / role).glob("*.cuh"))


def formats():
    """By name: the format in the spec, and the dtype of the parameters."""
    states = {name: ({"state": name}, "float32") for name in builtin("codecs")}
    mixed = {", ".join(map(" ".join, slots.items())): ({"state": slots}, "float32") for slots in MIXED}
    weights = {f"weights {name}": ({"weights": name}, "bfloat16") for name in builtin("weights")}
    return {REFERENCE: states.pop(REFERENCE)} | states | mixed | weights


def run_of(task, format_and_dtype, arguments):
    chosen, dtype = format_and_dtype
    options = {"lr": RATES[task], "weight_decay": 1e-2}
    run = {"task": task, "spec": {"rule": "adamw", "options": options} | chosen, "dtype": dtype}
    if task == "fashion_mnist":
        return run | {"batch": 128, "epochs": 1, "limit": arguments.limit}
    return run | {"batch": 8, "steps": arguments.steps}


def wanted_runs(arguments):
    """The runs in order: all formats with one seed, then with the next, so that early comparisons are complete."""
    for seed in range(1, arguments.seeds + 1):
        for name in arguments.format or formats():
            for task in arguments.task or RATES:
                yield run_of(task, formats()[name], arguments) | {"seed": seed}


def by_format(results, arguments):
    """The results with these settings, by task, then by format."""
    found = {task: {} for task in RATES}
    for name, format_and_dtype in formats().items():
        for task in RATES:
            run = run_of(task, format_and_dtype, arguments)
            of_it = [r for r in results if all(r.get(key) == value for key, value in run.items())]
            if of_it:
                found[task][name] = of_it
    return {task: of for task, of in found.items() if REFERENCE in of}


def verdict(results, reference, measure, better):
    """Whether runs are at most two standard errors worse than those of the reference with the same seeds. None if there
    are too few."""
    base = {r["seed"]: r[measure] for r in reference}
    pairs = [(r[measure], base[r["seed"]]) for r in results if r["seed"] in base]
    if any(None in pair for pair in pairs):
        return False
    if len(pairs) < 2:
        return None
    differences = [better * (value - reference) for value, reference in pairs]
    return statistics.fmean(differences) >= -2 * standard_error(differences)


def cell(results, reference, measure):
    """Mean and standard error, in bold if it is worse than the reference."""
    name, _, factor, digits, better = measure
    values = [None if r[name] is None else factor * r[name] for r in results]
    text = mean_and_error(values, digits)
    return f"**{text}**" if verdict(results, reference, name, better) is False else text


def size(results):
    return results[0]["state_bytes_per_parameter"] + {"float32": 4, "bfloat16": 2}[results[0]["dtype"]]


def row(name, of_task):
    found = [of[name] for of in of_task.values() if name in of]
    cells = [f"`{name}`", f"{size(found[0]):.2f}"]
    for of in of_task.values():
        cells += [cell(of[name], of[REFERENCE], m) if name in of else "" for m in MEASURES]
    return "| " + " | ".join(cells + [str(min(map(len, found)))]) + " |"


def table(of_task):
    """Markdown with a line for each format. Figures are mean and standard error over the seeds."""
    head = ["format", "bytes/parameter"]
    head += [f"{TITLES[task]}: {measure[1]}" for task in of_task for measure in MEASURES] + ["seeds"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    names = [name for name in formats() if any(name in of for of in of_task.values())]
    return "\n".join(lines + [row(name, of_task) for name in names]) + "\n"


PUBLISHED = ROOT / "bench/results/training.jsonl"
PAGE = ROOT / "docs/explanation/accuracy.md"
# Its columns: task, measure, title.
PAGE_COLUMNS = [
    ("fashion_mnist", MEASURES[0], "Fashion-MNIST, accuracy in %"),
    ("char_transformer", MEASURES[1], "text, loss"),
]


def page_table(of_task):
    """The table of the page: one measure for each task."""
    titles = " | ".join(title for _, _, title in PAGE_COLUMNS)
    lines = [f"| format | bytes/parameter | {titles} |", "|---" * 4 + "|"]
    for name in of_task[PAGE_COLUMNS[0][0]]:
        found = [(of_task[task], measure) for task, measure, _ in PAGE_COLUMNS]
        cells = [cell(of[name], of[REFERENCE], measure) if name in of else "" for of, measure in found]
        lines.append(f"| `{name}` | {size(found[0][0][name]):.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_page(of_task):
    """Replaces the page's table."""
    text = PAGE.read_text()
    begin = text.index("| format |")
    end = text.index("\n\n", begin) + 1
    PAGE.write_text(text[:begin] + page_table(of_task) + text[end:])


def caption(results, arguments):
    limit = f" (the first {arguments.limit} images)" if arguments.limit else ""
    return f"""# Training in every format

`bench/training.py`, AdamW, {where_and_when(results)}.

- Fashion-MNIST: one epoch{limit}, batch 128, learning rate {RATES["fashion_mnist"]}.
- Text: `examples/char_transformer`, {arguments.steps} steps, batch 8, learning rate {RATES["char_transformer"]}.
- Figures: mean and standard error on test data, over the same seeds for every format. Bold: worse than `{REFERENCE}` with the same seed, by more than two standard errors of the mean difference.
- Bytes: the parameter and all optimizer state.
- State formats have float32 parameters. Weight formats have float32 state and bfloat16 parameters, which are also used for testing.

![Test losses]({arguments.results.stem}.svg)

"""


def parse_arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/examples", help="folder of the programs")
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        default=PUBLISHED,
        help="one line of JSON per run; table and plot have the same path with .md and .svg",
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--task", action="append", choices=list(RATES))
    parser.add_argument("--format", action="append", choices=list(formats()))
    parser.add_argument("--limit", type=int, default=0, help="number of training images; 0: all")
    parser.add_argument("--steps", type=int, default=1000, help="number of steps on text")
    parser.add_argument("--table", action="store_true", help="run nothing")
    return parser.parse_args(given)


def panel(task, of):
    """A panel of bench/plot_training.py: test losses of all formats whose losses are numbers."""
    values = {name: [r["test_loss"] for r in rs] for name, rs in of.items()}
    whole = {name: losses for name, losses in values.items() if None not in losses}
    return {"title": f"{TITLES[task]}: test loss", "reference": REFERENCE, "values": whole}


def draw(of_task, path):
    panels = [panel(task, of) for task, of in of_task.items()]
    plot = [ROOT / ".deps/venv/bin/python", ROOT / "bench/plot_training.py", path]
    subprocess.run(plot, input=json.dumps(panels), text=True, check=True)


def main():
    arguments = parse_arguments()
    path = arguments.results
    if arguments.table:
        results = read_results(path)
    else:
        results = run_missing(
            wanted_runs(arguments), path, lambda run: arguments.programs / run["task"], arguments.threads
        )
    of_task = by_format(results, arguments)
    if not of_task:
        sys.exit(f"{path} has no {REFERENCE} run with these settings. Call without --table first.")
    shown = [run for of in of_task.values() for runs in of.values() for run in runs]
    text = caption(shown, arguments) + table(of_task)
    path.with_suffix(".md").write_text(text)
    if path == PUBLISHED:
        write_page(of_task)
    draw(of_task, path.with_suffix(".svg"))
    print(text, end="")


if __name__ == "__main__":
    main()
