"""Trains with the programs of examples/. Saves each result as a line of JSON, so that a stopped call continues."""

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
    """The finished runs. The last line of a call that was killed may be incomplete, and is no run."""
    lines = path.read_text().splitlines() if path.exists() else []
    results = []
    for number, line in enumerate(lines, 1):
        try:
            results.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                sys.exit(f"{path}:{number}: this line is no JSON. Remove it.")
    return results


def replace_text(path, text):
    """Writes the file. A call that is stopped leaves the old file or the new one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def remove_incomplete_line(path, results):
    """Rewrites the file, unless it has exactly these results."""
    text = "".join(json.dumps(result) + "\n" for result in results)
    if path.exists() and path.read_text() != text:
        replace_text(path, text)


def revision():
    """The commit of this tree, and "-dirty" if files other than results differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "describe", "--always"], capture_output=True, text=True).stdout.strip()
    changes = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!bench/results"])
    return commit if changes.returncode == 0 else f"{commit}-dirty"


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
    """Runs one training. `run` has the spec and the values of other flags. Returns it with the results added."""
    program = pathlib.Path(program)
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "--spec", json.dumps(run["spec"]), "--out", folder]
        for name in ("batch", "epochs", "steps", "limit", "dtype", "seed"):
            if run.get(name):
                command += [f"--{name}", str(run[name])]
        for rule in rules:
            command += ["--rule", str(rule)]
        command += ["--threads", str(threads)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        made = json.loads(pathlib.Path(folder, program.name + ".json").read_text())["runs"][0]
    last_epoch = made["losses"][-(len(made["losses"]) // run.get("epochs", 1)) :]
    lost = any(loss is None for loss in last_epoch)  # the program writes NaN and infinities as null
    return run | {
        "test_accuracy": made["test_accuracy"],
        "test_loss": made["test_loss"],
        "train_loss": None if lost else statistics.fmean(last_epoch),
        "state_bytes_per_parameter": made["state_bytes_per_parameter"],
        "seconds": made["seconds"],
        "revision": revision(),
        "date": datetime.date.today().isoformat(),
        "machine": machine_class(),
        "threads": threads,
    }


def run_missing(wanted, path, program_of, threads, rules=()):
    """Runs all runs without a result in the file. `program_of(run)` is the program. Returns all results in the file."""
    results = read_results(path)
    remove_incomplete_line(path, results)
    for run in wanted:
        if any(all(result.get(key) == value for key, value in run.items()) for result in results):
            continue
        results.append(train(run, program_of(run), threads, rules))
        append(path, results[-1])
    return results


def standard_error(values):
    return statistics.stdev(values) / math.sqrt(len(values))


def mean_and_error(values, digits):
    if any(value is None for value in values):
        return "not a number"
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {standard_error(values):.{digits}f}"


def where_and_when(results):
    machines = sorted({f"{r['machine']} ({r['threads']} in use)" for r in results})
    dates = sorted({r["date"] for r in results})
    return ", ".join(machines) + ", " + " to ".join(sorted({dates[0], dates[-1]}))
