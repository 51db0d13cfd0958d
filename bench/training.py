#!/usr/bin/env python3
"""Trains with every state format, two mixed by slot and every weight format, beside float32, on Fashion-MNIST and on text (AdamW).

  bench/training.py            # hours: each run that ends adds a line to the results, a second call goes on from there
  bench/training.py --table    # only the table and the plot of what is there

The programs that train are examples/fashion_mnist and examples/char_transformer; --seeds, --task, --format, --limit and --steps
choose less. Weight formats have bfloat16 parameters and float32 state; whatever is kept how, networks compute in float32.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from training_runs import ROOT, mean_and_error, read_results, run_missing, standard_error, where_and_when

REFERENCE = "fp32"
MIXED = [{"m": "int8", "v": "int4"}, {"m": "int4", "v": "int8"}]  # six bits a slot on average
RATES = {"fashion_mnist": 1e-3, "char_transformer": 2e-3}
TITLES = {"fashion_mnist": "Fashion-MNIST", "char_transformer": "text"}
# What is compared: the name, what it is called in a table, the factor, digits, and 1 if more is better.
MEASURES = [("test_accuracy", "accuracy, %", 100, 2, 1), ("test_loss", "loss", 1, 4, -1)]


def those_that_ship(role):
    return sorted(path.stem for path in (ROOT / "templates" / role).glob("*.cuh"))


def formats():
    """By name: what is chosen in the spec, and the dtype of the parameters."""
    states = {name: ({"state": name}, "float32") for name in those_that_ship("codecs")}
    mixed = {", ".join(map(" ".join, slots.items())): ({"state": slots}, "float32") for slots in MIXED}
    weights = {f"weights {name}": ({"weights": name}, "bfloat16") for name in those_that_ship("weights")}
    return {REFERENCE: states.pop(REFERENCE)} | states | mixed | weights


def run_of(task, kept, arguments):
    chosen, dtype = kept
    options = {"lr": RATES[task], "weight_decay": 1e-2}
    run = {"task": task, "spec": {"rule": "adamw", "options": options} | chosen, "dtype": dtype}
    if task == "fashion_mnist":
        return run | {"batch": 128, "epochs": 1, "limit": arguments.limit}
    return run | {"batch": 8, "steps": arguments.steps}


def wanted_runs(arguments):
    """Whole comparisons first: every format with one seed, then with the next."""
    for seed in range(1, arguments.seeds + 1):
        for name in arguments.format or formats():
            for task in arguments.task or RATES:
                yield run_of(task, formats()[name], arguments) | {"seed": seed}


def by_format(results, arguments):
    """The runs of these settings: by task, then by format."""
    found = {task: {} for task in RATES}
    for name, kept in formats().items():
        for task in RATES:
            run = run_of(task, kept, arguments)
            of_it = [r for r in results if all(r.get(key) == value for key, value in run.items())]
            if of_it:
                found[task][name] = of_it
    return {task: of for task, of in found.items() if REFERENCE in of}


def verdict(results, reference, measure, better):
    """Whether the mean is no worse than the reference's by more than the reference's standard error; None of too few runs."""
    ours, theirs = ([r[measure] for r in rs] for rs in (results, reference))
    if None in ours or None in theirs:
        return False
    if min(len(ours), len(theirs)) < 2:
        return None
    return better * (statistics.fmean(ours) - statistics.fmean(theirs)) >= -standard_error(theirs)


def cell(results, reference, measure):
    """Mean and standard error, bold where that is worse than the reference."""
    name, _, factor, digits, better = measure
    values = [None if r[name] is None else factor * r[name] for r in results]
    text = mean_and_error(values, digits)
    return f"**{text}**" if verdict(results, reference, name, better) is False else text


def size(results):
    return results[0]["state_bytes_per_parameter"] + {"float32": 4, "bfloat16": 2}[results[0]["dtype"]]


def row(name, of_task):
    there = [of[name] for of in of_task.values() if name in of]
    cells = [f"`{name}`", f"{size(there[0]):.2f}"]
    for of in of_task.values():
        cells += [cell(of[name], of[REFERENCE], m) if name in of else "" for m in MEASURES]
    return "| " + " | ".join(cells + [str(min(map(len, there)))]) + " |"


def table(of_task):
    """Markdown: a line for each format, mean and standard error over the seeds."""
    words = ["kept as", "bytes/parameter"]
    words += [f"{TITLES[task]}: {measure[1]}" for task in of_task for measure in MEASURES] + ["seeds"]
    lines = ["| " + " | ".join(words) + " |", "|---" * len(words) + "|"]
    names = [name for name in formats() if any(name in of for of in of_task.values())]
    return "\n".join(lines + [row(name, of_task) for name in names]) + "\n"


def caption(results, arguments):
    limit = f" (the first {arguments.limit} images)" if arguments.limit else ""
    return f"""# Training in every format

`bench/training.py`, AdamW, {where_and_when(results)}. Fashion-MNIST: one epoch{limit}, batch 128, learning rate
{RATES["fashion_mnist"]}; text: `examples/char_transformer`, {arguments.steps} steps, batch 8, learning rate {RATES["char_transformer"]}. On test data: mean and standard
error over the seeds, which every format shares; in bold what is worse than `{REFERENCE}` by more than the standard error of that. Bytes: the parameter and all
that the optimizer keeps. State formats have float32 parameters; weight formats float32 state and bfloat16 parameters, which are tested as they are.

![Test losses]({arguments.results.stem}.svg)

"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/examples", help="their folder")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results/training.jsonl",
                        help="one line of JSON for each run; table and plot lie beside it, in .md and .svg")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--task", action="append", choices=list(RATES))
    parser.add_argument("--format", action="append", choices=list(formats()))
    parser.add_argument("--limit", type=int, default=0, help="training images; 0: all")
    parser.add_argument("--steps", type=int, default=1000, help="with text")
    parser.add_argument("--table", action="store_true", help="run nothing")
    return parser.parse_args()


def panel(task, of):
    """What bench/plot_training.py draws: test losses, without what is no number."""
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
        results = run_missing(wanted_runs(arguments), path, lambda run: arguments.programs / run["task"], arguments.threads)
    of_task = by_format(results, arguments)
    if not of_task:
        sys.exit(f"{path} holds no {REFERENCE} run of these settings yet; call without --table")
    text = caption(results, arguments) + table(of_task)
    path.with_suffix(".md").write_text(text)
    draw(of_task, path.with_suffix(".svg"))
    print(text, end="")


if __name__ == "__main__":
    main()
