#!/usr/bin/env python3
"""Compares LAMB16 with its original, Adam and LAMB on Fashion-MNIST, in the two settings that its author recommends.

  bench/lamb16.py            # hours: each run that ends adds a line to the results, a second call goes on from there
  bench/lamb16.py --table    # only the table of what is there

The program that trains is examples/fashion_mnist; --seeds, --batch, --optimizer and --limit choose less.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
    spec = json.loads(json.dumps(OPTIMIZERS[optimizer]))
    rates = {"lr": setting["lr"], "weight_decay": setting["weight_decay"]}
    spec["options"] = spec.get("options", {}) | rates
    return spec


def wanted_runs(arguments):
    """What is to be run, whole comparisons first: all optimizers with one seed, then with the next."""
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


def read_results(path):
    """The runs that ended. A last line that was cut off is taken away, so that it is run again."""
    if not path.exists():
        return []
    whole, newline, _ = path.read_text().rpartition("\n")
    path.write_text(whole + newline)
    return [json.loads(line) for line in whole.splitlines()]


def is_result_of(result, run):
    return all(result[key] == value for key, value in run.items())


def machine_class():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0]}, {len(models)} cores" if models else "unknown processor"


def train(run, arguments):
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.program, "--spec", json.dumps(run["spec"]), "--out", folder]
        for name in ("batch", "epochs", "seed"):
            command += [f"--{name}", str(run[name])]
        if run["limit"]:
            command += ["--limit", str(run["limit"])]
        command += ["--threads", str(arguments.threads)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        made = json.loads(pathlib.Path(folder, "fashion_mnist.json").read_text())["runs"][0]
    last_epoch = made["losses"][-(len(made["losses"]) // run["epochs"]) :]
    # The program writes a loss that is no number as null.
    lost = any(loss is None for loss in last_epoch)
    return run | {
        "test_accuracy": made["test_accuracy"],
        "train_loss": None if lost else statistics.fmean(last_epoch),
        "state_bytes_per_parameter": made["state_bytes_per_parameter"],
        "seconds": made["seconds"],
        "date": datetime.date.today().isoformat(),
        "machine": machine_class(),
        "threads": arguments.threads,
    }


def append(path, result):
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
        file.flush()
        os.fsync(file.fileno())


def mean_and_error(values, digits):
    if any(value is None for value in values):
        return "not a number"
    mean = f"{statistics.fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values) / math.sqrt(len(values)):.{digits}f}"


def row(optimizer, results):
    accuracy = mean_and_error([100 * r["test_accuracy"] for r in results], 2)
    loss = mean_and_error([r["train_loss"] for r in results], 4)
    bytes_kept = results[0]["state_bytes_per_parameter"]
    return f"| {optimizer} | {bytes_kept:.2f} | {accuracy} | {loss} | {len(results)} |"


def table(results):
    """Markdown: one part for each setting; mean and standard error over the seeds."""
    lines = ["# LAMB16 on Fashion-MNIST", ""]
    lines += [
        "Command `bench/lamb16.py`, "
        + ", ".join(sorted({f"{r['machine']} ({r['threads']} in use)" for r in results}))
        + ", "
        + " to ".join(sorted({min(r["date"] for r in results), max(r["date"] for r in results)}))
        + "; mean and standard error over the seeds. Training loss: mean of the last epoch."
    ]
    for setting in sorted({(r["batch"], r["epochs"], r["limit"]) for r in results}, reverse=True):
        here = [r for r in results if (r["batch"], r["epochs"], r["limit"]) == setting]
        rates = here[0]["spec"]["options"]
        limit = f", the first {setting[2]} images" if setting[2] else ""
        lines += [
            "",
            f"Batch {setting[0]}, {setting[1]} epochs, learning rate {rates['lr']}, "
            f"weight decay {rates['weight_decay']}{limit}:",
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=str(ROOT / "build/examples/fashion_mnist"))
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results/lamb16.jsonl",
                        help="one line of JSON for each run; the table lies beside it, ending in .md")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, action="append", choices=[s["batch"] for s in SETTINGS])
    parser.add_argument("--optimizer", action="append", choices=list(OPTIMIZERS))
    parser.add_argument("--epochs", type=int, default=0, help="default: each setting's own")
    parser.add_argument("--limit", type=int, default=0, help="training images; 0: all")
    parser.add_argument("--table", action="store_true", help="run nothing")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    results = read_results(arguments.results)
    for run in [] if arguments.table else wanted_runs(arguments):
        if any(is_result_of(result, run) for result in results):
            continue
        results.append(train(run, arguments))
        append(arguments.results, results[-1])
    if not results:
        sys.exit(f"{arguments.results} holds no run yet; call without --table")
    arguments.results.with_suffix(".md").write_text(table(results))
    print(table(results), end="")


if __name__ == "__main__":
    main()
