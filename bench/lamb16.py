#!/usr/bin/env python3
"""Compares LAMB16 with its original form, Adam and LAMB on Fashion-MNIST, in the two settings that its author
recommends.

  bench/lamb16.py            # takes hours; each finished run adds a line to the results, and the next call continues
  bench/lamb16.py --table    # only writes the table of existing results

It uses the program examples/fashion_mnist. --seeds, --batch, --optimizer and --limit select fewer runs.
"""

import argparse
import pathlib
import sys

from training_runs import ROOT, mean_and_error, read_results, run_missing, where_and_when

SETTINGS = [
    {"batch": 1024, "epochs": 10, "lr": 0.02, "weight_decay": 0.01},
    {"batch": 128, "epochs": 5, "lr": 0.01, "weight_decay": 0.01},
]
OPTIMIZERS = {
    "lamb16 corrected": {"rule": "lamb16", "options": {"form": "corrected"}},
    "lamb16 original": {"rule": "lamb16", "options": {"form": "original"}},
    "adam": {"rule": "adam"},
    "lamb": {"rule": "lamb"},
}


def spec_of(optimizer, setting):
    spec = OPTIMIZERS[optimizer]
    rates = {"lr": setting["lr"], "weight_decay": setting["weight_decay"]}
    return spec | {"options": spec.get("options", {}) | rates}


def wanted_runs(arguments):
    """The runs in order: all optimizers with one seed, then with the next, so that early comparisons are complete."""
    for seed in range(1, arguments.seeds + 1):
        for setting in SETTINGS:
            for optimizer in OPTIMIZERS:
                if arguments.batch and setting["batch"] not in arguments.batch:
                    continue
                if arguments.optimizer and optimizer not in arguments.optimizer:
                    continue
                yield {
                    "optimizer": optimizer,
                    "spec": spec_of(optimizer, setting),
                    "batch": setting["batch"],
                    "epochs": arguments.epochs or setting["epochs"],
                    "limit": arguments.limit,
                    "seed": seed,
                }


def row(optimizer, results):
    accuracy = mean_and_error([100 * r["test_accuracy"] for r in results], 2)
    loss = mean_and_error([r["train_loss"] for r in results], 4)
    state_bytes = results[0]["state_bytes_per_parameter"]
    return f"| {optimizer} | {state_bytes:.2f} | {accuracy} | {loss} | {len(results)} |"


def setting_of(result):
    options = result["spec"]["options"]
    return result["batch"], result["epochs"], result["limit"], options["lr"], options["weight_decay"]


def table(results):
    """Markdown with a table for each setting. Figures are mean and standard error over the seeds."""
    lines = [
        "# LAMB16 on Fashion-MNIST",
        "",
        f"`bench/lamb16.py`, {where_and_when(results)}. Mean and standard error over the seeds. "
        "Training loss: mean of the last epoch.",
    ]
    for setting in sorted({setting_of(r) for r in results}, reverse=True):
        here = [r for r in results if setting_of(r) == setting]
        limit = f", the first {setting[2]} images" if setting[2] else ""
        lines += [
            "",
            f"Batch {setting[0]}, {setting[1]} epochs, learning rate {setting[3]}, weight decay {setting[4]}{limit}:",
            "",
            "| optimizer | state, bytes/parameter | test accuracy, % | training loss | seeds |",
            "|---|---|---|---|---|",
        ]
        for optimizer in OPTIMIZERS:
            of_it = [r for r in here if r["optimizer"] == optimizer]
            if of_it:
                lines.append(row(optimizer, of_it))
    return "\n".join(lines) + "\n"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/examples/fashion_mnist")
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        default=ROOT / "bench/results/lamb16.jsonl",
        help="one line of JSON per run; the table has the same path with .md",
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, action="append", choices=[s["batch"] for s in SETTINGS])
    parser.add_argument("--optimizer", action="append", choices=list(OPTIMIZERS))
    parser.add_argument("--epochs", type=int, default=0, help="number of epochs (default: that of each setting)")
    parser.add_argument("--limit", type=int, default=0, help="number of training images; 0: all")
    parser.add_argument("--table", action="store_true", help="run nothing")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    path = arguments.results
    if arguments.table:
        results = read_results(path)
    else:
        results = run_missing(wanted_runs(arguments), path, lambda _: arguments.program, arguments.threads)
    if not results:
        sys.exit(f"{path} has no runs. Call without --table first.")
    path.with_suffix(".md").write_text(table(results))
    print(table(results), end="")


if __name__ == "__main__":
    main()
