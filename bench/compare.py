#!/usr/bin/env python3
"""Compares the time of a step of jitstep's optimizers with those of other libraries, on the CPU.

  bench/compare.py --prepare    # installs the libraries in .deps/libraries and compiles their kernels (minutes, once)
  bench/compare.py              # writes <date>-<machine>.json, comparison.md and comparison.svg in bench/results
  bench/compare.py --table      # only writes the page and the plot of an existing result

Needs build/bench/implementation_server, a C++ compiler and Python's headers. Needs the network for missing packages:
about 0.5 GB if pip finds PyTorch's CPU build, otherwise 3 GB; 2.3 GB on disk. Implementations that cannot run are
listed with the reason.

Rounds are paired: in each round, every implementation takes one step after the other. Each library has a process with
parameters of the same shapes and values and the same number of threads. Ratios are medians of the ratios in each round.
(Google Benchmark, in contrast, repeats one benchmark after the other, in one process.) The results are saved after each
case. The next call of the same day and commit continues a stopped one.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import library_environment
from compare_report import page
from comparison_cases import CASES
from implementation_process import ImplementationError, ImplementationProcess
from training_runs import ROOT, machine_class, replace_text, revision

WORKLOADS = ["small_tensors", "one_tensor", "resnet50", "gpt2"]
PAGE = ROOT / "bench/results/comparison.md"
BYTES_PER_ELEMENT = 110  # upper bound of the memory of all processes of a case
COMPILED = {"deepspeed", "torchao"}
SMALL = 4 << 20  # smaller workloads fit into a cache; their steps are repeated after an untimed one


class Case:
    """One case: creates its implementations, then measures a step of each per round."""

    def __init__(self, case, workload, processes, settings, reasons):
        """`reasons`: why implementations cannot run, by package or name. run() adds those that cannot be created in any
        case."""
        self.case, self.workload, self.settings = case, workload, settings
        self.processes, self.permanent_reasons, self.reasons = processes, reasons, dict(reasons)
        self.results, self.numbers, self.sums = {}, {}, {}
        self.elements = sum(elements(shape) for shape in workload["shapes"])

    def load(self, rows):
        """Loads the parameters in all processes in parallel, and checks that their sums are equal."""
        request = {
            "do": "load",
            "shapes": self.workload["shapes"],
            "dtype": self.case["dtype"],
            "threads": self.settings["threads"],
        }
        started = []
        for name in dict.fromkeys(row["process"] for row in rows):
            if self.attempt(name, lambda: self.processes[name].send(request) or True):
                started.append(name)
        for name in started:
            answer = self.attempt(name, self.processes[name].receive)
            if answer and answer["threads"] != self.settings["threads"]:
                self.exclude(name, f"it uses {answer['threads']} threads")
            elif answer:
                self.sums[name] = answer["sum"]
        if "cpp" not in self.sums:
            raise SystemExit(f"compare.py: build/bench/implementation_server: {self.reasons.get('cpp', 'no answer')}")
        for name, total in self.sums.items():
            if abs(total - self.sums["cpp"]) > 1e-6 * self.elements**0.5:
                self.exclude(name, "its parameters differ from those of the other implementations")

    def attempt(self, name, action):
        try:
            return action()
        except ImplementationError as error:
            self.exclude(name, str(error))
            return None

    def exclude(self, name, reason):
        self.reasons.setdefault(name, reason)

    def reason_of(self, row):
        return self.reasons.get(row["name"]) or self.reasons.get(row["process"])

    def make(self, row):
        """Takes the first step, which compiles and creates the state, and a second one to measure memory."""
        process = self.processes[row["process"]]
        made = process.ask({"do": "make", "implementation": row["make"]})
        number = self.numbers.get(row["process"], 0)
        self.numbers[row["process"]] = number + 1
        if made["changed"] < len(self.workload["shapes"]):
            raise ImplementationError(f"a step changes {made['changed']} of {len(self.workload['shapes'])} parameters")
        if made["dtype"] != self.case["dtype"]:
            raise ImplementationError(f"its parameters are {made['dtype']}")
        extra = process.extra_bytes({"do": "step", "implementation": number, "untimed": 1, "timed": 1})
        self.results[row["name"]] = {
            "number": number,
            "seconds": [],
            "cpu_seconds": [],
            "package": made.get("package"),
            "state": made.get("state"),
            "state_bytes": made["state_bytes"],
            "extra_bytes": extra,
        }

    def measure(self, row):
        time.sleep(0.02)  # threads of the previous process spin for a while after their work
        small = self.elements < SMALL
        result = self.results[row["name"]]
        request = {
            "do": "step",
            "implementation": result["number"],
            "untimed": 1 if small else 0,
            "timed": 5 if small else 1,
        }
        answer = self.processes[row["process"]].ask(request)
        for figure in ("seconds", "cpu_seconds"):
            result[figure].append(answer[figure])

    def is_done(self, name):
        """Whether an implementation has taken the least number of rounds and more time than `seconds`."""
        seconds = self.results[name]["seconds"]
        return len(seconds) >= self.settings["least_rounds"] and sum(seconds) > self.settings["seconds"]

    def run(self):
        rows = self.case["rows"]
        self.load([row for row in rows if not self.reason_of(row)])
        for row in rows:
            if not self.reason_of(row):
                self.attempt(row["name"], lambda: self.make(row))
                if row["process"] != "cpp" and self.reason_of(row):
                    self.permanent_reasons[row["name"]] = self.reason_of(row)
        for _ in range(self.settings["rounds"]):
            for row in rows:
                if row["name"] in self.results and not self.reason_of(row) and not self.is_done(row["name"]):
                    self.attempt(row["name"], lambda: self.measure(row))
        for name in self.sums:
            self.attempt(name, lambda: self.processes[name].ask({"do": "unload"}))
        return [self.outcome(row) for row in rows]

    def outcome(self, row):
        about = {"name": row["name"], "bound": row.get("bound", row["name"])}
        reason = self.reason_of(row)
        if reason:
            return about | {"reason": reason}
        result = {key: value for key, value in self.results[row["name"]].items() if key != "number"}
        return about | result


def elements(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def fits(case, shapes):
    """Whether the case makes sense for tensors of these shapes."""
    return case["small"] or max(elements(shape) for shape in shapes) >= 4096


def available_bytes():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def begin(path, settings):
    """The result of an earlier call with the same settings, or a new one."""
    now = revision()
    if path.exists():
        result = json.loads(path.read_text())
        if (result["settings"], result["revision"]) != (settings, now):
            sys.exit(
                f"compare.py: {path} was measured with other settings or another revision. Use --out for another "
                "file, or remove it."
            )
        return result
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine_class(),
        "revision": now,
        "settings": settings,
        "load_average": [],
        "cases": [],
    }


def measure(arguments, settings, processes, reasons):
    path, shapes = arguments.out, json.loads((ROOT / "bench/shapes.json").read_text())
    result = begin(path, settings)
    done = {(case["workload"], case["case"]) for case in result["cases"]}
    for name in arguments.workload:
        for title, case in CASES.items():
            workload = shapes[name]
            if (name, title) in done or not fits(case, workload["shapes"]):
                continue
            print(f"{workload['title']}: {title}", file=sys.stderr, flush=True)
            run = Case(case, workload, processes, settings, reasons)
            about = {
                "workload": name,
                "title": workload["title"],
                "tensors": len(workload["shapes"]),
                "elements": run.elements,
                "case": title,
                "dtype": case["dtype"],
            }
            if run.elements * BYTES_PER_ELEMENT > available_bytes():
                gigabytes = run.elements * BYTES_PER_ELEMENT / 2**30
                result["cases"].append(about | {"reason": f"it needs {gigabytes:.0f} GiB of memory"})
            else:
                result["load_average"].append(os.getloadavg()[0])
                result["cases"].append(about | {"rows": run.run()})
            replace_text(path, json.dumps(result, indent=1) + "\n")
    return result


def make_processes(arguments, threads, log):
    variables = library_environment.variables(threads, build=arguments.server.resolve().parents[1])
    child = [arguments.python, ROOT / "bench/library_implementations.py"]
    names = {row["process"] for case in CASES.values() for row in case["rows"]}
    processes = {name: ImplementationProcess(child, variables, log) for name in names}
    processes["cpp"] = ImplementationProcess([arguments.server], variables, log)
    return processes


def prepare(arguments, processes, reasons):
    """Makes the libraries compile their kernels, for each distinct shape."""
    shapes = json.loads((ROOT / "bench/shapes.json").read_text())
    for name in arguments.workload:
        distinct = sorted({tuple(shape) for shape in shapes[name]["shapes"]})
        wanted = [
            (case, row)
            for case in CASES.values()
            if fits(case, distinct)
            for row in case["rows"]
            if row["process"] in COMPILED - set(reasons)
        ]
        for case, row in wanted:
            print(f"{shapes[name]['title']}: {row['name']}", file=sys.stderr, flush=True)
            process = processes[row["process"]]
            try:
                process.ask({"do": "load", "shapes": distinct, "dtype": case["dtype"], "threads": arguments.threads})
                process.ask({"do": "make", "implementation": row["make"]})
            except ImplementationError as error:
                print(f"  not measured: {error}", file=sys.stderr)


def publish(arguments):
    """Writes the page and the plot of a result."""
    result = json.loads(arguments.out.read_text())
    arguments.page.write_text(page(result, arguments.out, arguments.page))
    plot = [
        ROOT / ".deps/venv/bin/python",
        ROOT / "bench/plot_comparison.py",
        arguments.out,
        arguments.page.with_suffix(".svg"),
    ]
    subprocess.run([str(part) for part in plot], check=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="default: bench/results/<today>-<machine>.json; for --table the newest of these",
    )
    parser.add_argument(
        "--page",
        type=pathlib.Path,
        default=PAGE,
        help="page with the tables; the plot has the same path with .svg",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="number of threads of each implementation (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--seconds",
        type=float,
        default=4,
        help="time per case, after which an implementation with 5 rounds stops (default: 4)",
    )
    parser.add_argument(
        "--workload", action="append", help=f"name in bench/shapes.json (default: {', '.join(WORKLOADS)})"
    )
    parser.add_argument("--python", type=pathlib.Path, help="Python of an environment with torch; installs nothing")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "build/bench/implementation_server")
    parser.add_argument(
        "--log", type=pathlib.Path, default=ROOT / ".deps/libraries.log", help="output of the processes"
    )
    parser.add_argument(
        "--quick", action="store_true", help="three rounds of three small tensors, for tests; needs --out and --page"
    )
    parser.add_argument("--prepare", action="store_true", help="install and compile, measure nothing")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    if arguments.quick and (arguments.out is None or arguments.page.resolve() == PAGE):
        parser.error("--quick needs --out and --page, so that it does not replace real results")
    if arguments.quick:
        arguments.workload, arguments.rounds = ["tiny"], 3
    arguments.workload = arguments.workload or WORKLOADS
    arguments.out = arguments.out or default_file(arguments.table)
    return arguments


def default_file(newest):
    """The file of this day and machine, or the newest one of this machine."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in machine_class().lower()).split())
    files = sorted((ROOT / "bench/results").glob(f"????-??-??-{slug}.json"))
    if not newest:
        return ROOT / f"bench/results/{datetime.date.today().isoformat()}-{slug}.json"
    if not files:
        sys.exit(
            "compare.py: there is no result of this machine. Call without --table first, or name a file with --out."
        )
    return files[-1]


def main():
    arguments = parse_arguments()
    if not arguments.table:
        if arguments.python is None:
            reasons = library_environment.install()
            arguments.python = library_environment.python_of(library_environment.FOLDER)
        else:
            reasons = library_environment.missing(arguments.python)
        settings = {
            "threads": arguments.threads,
            "rounds": arguments.rounds,
            "least_rounds": 5,
            "seconds": arguments.seconds,
        }
        with open(arguments.log, "a") as log:
            processes = make_processes(arguments, arguments.threads, log)
            if arguments.prepare:
                prepare(arguments, processes, reasons)
            else:
                measure(arguments, settings, processes, reasons)
            for process in processes.values():
                process.close()
    if not arguments.prepare:
        publish(arguments)


if __name__ == "__main__":
    main()
