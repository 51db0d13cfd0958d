"""Trainings by examples/fashion_mnist whose results are kept, a line of JSON for each: a call that was stopped goes on from there."""
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


def read_results(path):
    """The runs that ended. A last line that was cut off is taken away, so that it is run again."""
    if not path.exists():
        return []
    whole, newline, _ = path.read_text().rpartition("\n")
    path.write_text(whole + newline)
    return [json.loads(line) for line in whole.splitlines()]


def append(path, result):
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
        file.flush()
        os.fsync(file.fileno())


def machine_class():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0]}, {len(models)} cores" if models else "unknown processor"


def train(run, program, threads, rules=()):
    """One training: `run` has the spec, batch, epochs, limit and seed. Gives it with what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "--spec", json.dumps(run["spec"]), "--out", folder]
        for name in ("batch", "epochs", "seed"):
            command += [f"--{name}", str(run[name])]
        if run["limit"]:
            command += ["--limit", str(run["limit"])]
        for rule in rules:
            command += ["--rule", str(rule)]
        command += ["--threads", str(threads)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        made = json.loads(pathlib.Path(folder, "fashion_mnist.json").read_text())["runs"][0]
    last_epoch = made["losses"][-(len(made["losses"]) // run["epochs"]) :]
    lost = any(loss is None for loss in last_epoch)  # the program writes a loss that is no number as null
    return run | {
        "test_accuracy": made["test_accuracy"],
        "train_loss": None if lost else statistics.fmean(last_epoch),
        "state_bytes_per_parameter": made["state_bytes_per_parameter"],
        "seconds": made["seconds"],
        "date": datetime.date.today().isoformat(),
        "machine": machine_class(),
        "threads": threads,
    }


def run_missing(wanted, path, program, threads, rules=()):
    """Runs what the file has no result of, and gives all results in it."""
    results = read_results(path)
    for run in wanted:
        if any(all(result[key] == value for key, value in run.items()) for result in results):
            continue
        results.append(train(run, program, threads, rules))
        append(path, results[-1])
    return results


def mean_and_error(values, digits):
    if any(value is None for value in values):
        return "not a number"
    mean = f"{statistics.fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values) / math.sqrt(len(values)):.{digits}f}"


def where_and_when(results):
    machines = sorted({f"{r['machine']} ({r['threads']} in use)" for r in results})
    dates = sorted({r["date"] for r in results})
    return ", ".join(machines) + ", " + " to ".join(sorted({dates[0], dates[-1]}))
