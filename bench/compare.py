#!/usr/bin/env python3
"""Times a step of jitstep's optimizers beside those of other packages, on the CPU.

  bench/compare.py --prepare    # installs the peers into .deps/peers and compiles what they compile: minutes, once
  bench/compare.py              # measures; writes bench/results/<date>-<machine>.json, bench/results/peers.md and peers.svg
  bench/compare.py --table      # only the page and the plot of what is there

Needs build/bench/implementation_server and the network for what is not installed yet (about 0.5 GB where pip is offered PyTorch's CPU
build, otherwise 3 GB; 2.3 GB on disk), a C++ compiler and Python's headers. What cannot run is listed with the reason.

Rounds are paired: in each one every contender takes its turn, one after the other, each in a process that holds parameters of
the same shapes and values, with the same number of threads; ratios are medians of the rounds' own. (Google Benchmark repeats one
benchmark after the other, in one process.) What was measured is kept after each comparison: a call that was stopped goes on from there.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import peer_environment
from training_runs import ROOT, machine_class
from peer_heats import HEATS
from peer_process import ContenderError, PeerProcess
from compare_report import page

WORKLOADS = ["small_tensors", "one_tensor", "resnet50", "gpt2"]
BYTES_PER_ELEMENT = 110  # what a heat's processes hold together, at most
COMPILED = {"deepspeed", "torchao"}
SMALL = 4 << 20  # workloads of fewer elements lie in a cache: their steps are repeated, the first one untimed


class Heat:
    """One comparison: its implementations are made, then take turns."""

    def __init__(self, heat, workload, processes, settings, reasons):
        """`reasons` says who cannot run, by package or contender; who cannot be made is added."""
        self.heat, self.workload, self.settings = heat, workload, settings
        self.processes, self.lasting, self.reasons = processes, reasons, dict(reasons)
        self.results, self.numbers, self.sums = {}, {}, {}
        self.elements = sum(elements(shape) for shape in workload["shapes"])

    def load(self, rows):
        """Gives each process the parameters, all at once, and compares what they hold."""
        request = {"do": "load", "shapes": self.workload["shapes"], "dtype": self.heat["dtype"],
                   "threads": self.settings["threads"]}
        started = []
        for name in dict.fromkeys(row["process"] for row in rows):
            if self.attempt(name, lambda: self.processes[name].send(request) or True):
                started.append(name)
        for name in started:
            answer = self.attempt(name, self.processes[name].receive)
            if answer and answer["threads"] != self.settings["threads"]:
                self.refuse(name, f"it uses {answer['threads']} threads")
            elif answer:
                self.sums[name] = answer["sum"]
        if "cpp" not in self.sums:
            raise SystemExit(f"compare.py: build/bench/implementation_server: {self.reasons.get('cpp', 'no answer')}")
        for name, total in self.sums.items():
            if abs(total - self.sums["cpp"]) > 1e-6 * self.elements**0.5:
                self.refuse(name, "its parameters are not those of the others")

    def attempt(self, name, action):
        try:
            return action()
        except ContenderError as error:
            self.refuse(name, str(error))
            return None

    def refuse(self, name, reason):
        self.reasons.setdefault(name, reason)

    def reason_of(self, row):
        return self.reasons.get(row["name"]) or self.reasons.get(row["process"])

    def make(self, row):
        """Its first step, which compiles and makes the state, and a second one for the memory."""
        process = self.processes[row["process"]]
        made = process.ask({"do": "make", "contender": row["make"]})
        number = self.numbers.get(row["process"], 0)
        self.numbers[row["process"]] = number + 1
        if made["changed"] < len(self.workload["shapes"]):
            raise ContenderError(f"a step changes {made['changed']} of {len(self.workload['shapes'])} parameters")
        if made["dtype"] != self.heat["dtype"]:
            raise ContenderError(f"its parameters are {made['dtype']}")
        extra = process.extra_bytes({"do": "step", "contender": number, "untimed": 1, "timed": 1})
        self.results[row["name"]] = {
            "number": number, "seconds": [], "cpu_seconds": [], "package": made.get("package"),
            "state": made.get("state"), "state_bytes": made["state_bytes"], "extra_bytes": extra,
        }

    def turn(self, row):
        time.sleep(0.02)  # threads of the process before spin for a while when their work is done
        small = self.elements < SMALL
        result = self.results[row["name"]]
        request = {"do": "step", "contender": result["number"],
                   "untimed": 1 if small else 0, "timed": 5 if small else 1}
        answer = self.processes[row["process"]].ask(request)
        for figure in ("seconds", "cpu_seconds"):
            result[figure].append(answer[figure])

    def is_tired(self, name):
        """After the least number of rounds, a contender has as much time as `seconds`."""
        seconds = self.results[name]["seconds"]
        return len(seconds) >= self.settings["least_rounds"] and sum(seconds) > self.settings["seconds"]

    def run(self):
        rows = self.heat["rows"]
        self.load([row for row in rows if not self.reason_of(row)])
        for row in rows:
            if not self.reason_of(row):
                self.attempt(row["name"], lambda: self.make(row))
                if row["process"] != "cpp" and self.reason_of(row):
                    self.lasting[row["name"]] = self.reason_of(row)
        for _ in range(self.settings["rounds"]):
            for row in rows:
                if row["name"] in self.results and not self.reason_of(row) and not self.is_tired(row["name"]):
                    self.attempt(row["name"], lambda: self.turn(row))
        for name in self.sums:
            self.attempt(name, lambda: self.processes[name].ask({"do": "unload"}))
        return [self.outcome(row) for row in rows]

    def outcome(self, row):
        about = {"name": row["name"], "walk": row.get("walk", row["name"])}
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


def fits(heat, shapes):
    """Whether the heat has anything to compare on tensors of these shapes."""
    return heat["small"] or max(elements(shape) for shape in shapes) >= 4096


def available_bytes():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def write(path, result):
    """Whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(result, indent=1) + "\n")
    new.replace(path)


def begin(path, settings):
    """What was measured by an earlier call with the same settings, or a new result."""
    if path.exists():
        result = json.loads(path.read_text())
        if result["settings"] != settings:
            sys.exit(f"compare.py: {path} was measured with other settings: name another file by --out, or remove it")
        return result
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    revision = subprocess.run(describe, capture_output=True, text=True).stdout.strip()
    return {"date": datetime.date.today().isoformat(), "machine": machine_class(), "revision": revision,
            "settings": settings, "load_average": [], "heats": []}


def measure(arguments, settings, processes, reasons):
    path, shapes = arguments.out, json.loads((ROOT / "bench/shapes.json").read_text())
    result = begin(path, settings)
    done = {(heat["workload"], heat["heat"]) for heat in result["heats"]}
    for name in arguments.workload:
        for title, heat in HEATS.items():
            workload = shapes[name]
            if (name, title) in done or not fits(heat, workload["shapes"]):
                continue
            print(f"{workload['title']}: {title}", file=sys.stderr, flush=True)
            run = Heat(heat, workload, processes, settings, reasons)
            about = {"workload": name, "title": workload["title"], "tensors": len(workload["shapes"]),
                     "elements": run.elements, "heat": title, "dtype": heat["dtype"]}
            if run.elements * BYTES_PER_ELEMENT > available_bytes():
                gigabytes = run.elements * BYTES_PER_ELEMENT / 2**30
                result["heats"].append(about | {"reason": f"it needs {gigabytes:.0f} GiB of memory"})
            else:
                result["load_average"].append(os.getloadavg()[0])
                result["heats"].append(about | {"rows": run.run()})
            write(path, result)
    return result


def make_processes(arguments, threads, log):
    variables = peer_environment.variables(threads)
    child = [arguments.python, ROOT / "bench/peer_contenders.py"]
    names = {row["process"] for heat in HEATS.values() for row in heat["rows"]}
    processes = {name: PeerProcess(child, variables, log) for name in names}
    processes["cpp"] = PeerProcess([arguments.server], variables, log)
    return processes


def prepare(arguments, processes, reasons):
    """Has everything compiled that peers compile for themselves: once for each shape."""
    shapes = json.loads((ROOT / "bench/shapes.json").read_text())
    for name in arguments.workload:
        distinct = sorted({tuple(shape) for shape in shapes[name]["shapes"]})
        wanted = [(heat, row) for heat in HEATS.values() if fits(heat, distinct) for row in heat["rows"]
                  if row["process"] in COMPILED - set(reasons)]
        for heat, row in wanted:
            print(f"{shapes[name]['title']}: {row['name']}", file=sys.stderr, flush=True)
            process = processes[row["process"]]
            try:
                process.ask({"do": "load", "shapes": distinct, "dtype": heat["dtype"], "threads": arguments.threads})
                process.ask({"do": "make", "contender": row["make"]})
            except ContenderError as error:
                print(f"  not measured: {error}", file=sys.stderr)


def publish(arguments):
    """The page and the plot of a result."""
    result = json.loads(arguments.out.read_text())
    arguments.page.write_text(page(result, arguments.out, arguments.page))
    plot = [ROOT / ".deps/venv/bin/python", ROOT / "bench/plot_comparison.py", arguments.out, arguments.page.with_suffix(".svg")]
    subprocess.run([str(part) for part in plot], check=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="default: bench/results/<date>-<machine>.json")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "bench/results/peers.md",
                        help="the tables; the plot lies beside it, ending in .svg")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for everybody (default: all)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4,
                        help="a contender that took longer in a comparison leaves it after 5 rounds (default 4)")
    parser.add_argument("--workload", action="append", help=f"of bench/shapes.json (default: {', '.join(WORKLOADS)})")
    parser.add_argument("--python", type=pathlib.Path, help="of an environment with torch; nothing is installed")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "build/bench/implementation_server")
    parser.add_argument("--log", type=pathlib.Path, default=ROOT / ".deps/peers.log", help="what the processes print")
    parser.add_argument("--quick", action="store_true", help="three rounds of three small tensors, for tests")
    parser.add_argument("--prepare", action="store_true", help="install and compile, measure nothing")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.workload, arguments.rounds = ["tiny"], 3
    arguments.workload = arguments.workload or WORKLOADS
    if arguments.out is None:
        slug = "-".join("".join(c if c.isalnum() else " " for c in machine_class().lower()).split())
        arguments.out = ROOT / f"bench/results/{datetime.date.today().isoformat()}-{slug}.json"
    return arguments


def main():
    arguments = parse_arguments()
    if not arguments.table:
        if arguments.python is None:
            reasons = peer_environment.install()
            arguments.python = peer_environment.python_of(peer_environment.FOLDER)
        else:
            reasons = peer_environment.missing(arguments.python)
        settings = {"threads": arguments.threads, "rounds": arguments.rounds, "least_rounds": 5, "seconds": arguments.seconds}
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
