#!/usr/bin/env python3
"""Measures optimizers whose state several ranks share, over gloo on one computer: state, bytes on the wire, time, and
bits.

  bench/scale.py            # writes bench/results/scale.json and scale.md; continues a stopped call of this commit
  bench/scale.py --table    # only writes the page of an existing result

It starts real processes. jitstep's are build/bench/scale_rank. Those of other libraries are bench/scale_peers.py, in
the environment that bench/compare.py --prepare installs. Without it, or for a library that does not work, the page has
the reason. Bytes are those of the loopback device, in a network of these processes alone if the system allows that (as
root). The page also has a prediction of bench/scale_model.py for numbers of ranks that were not measured.
"""

import argparse
import ctypes
import datetime
import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

import library_environment
from scale_report import page
from training_runs import ROOT, machine_class, replace_text, revision

OPTIONS = {"lr": 1e-3, "weight_decay": 1e-2, "max_grad_norm": 1.0}
# By name: the spec of jitstep's optimizer.
OURS = {
    "jitstep AdamW fp32": {"rule": "adamw", "options": OPTIONS},
    "jitstep AdamW int8": {"rule": "adamw", "state": "int8", "options": OPTIONS},
    "jitstep LAMB int8": {"rule": "lamb", "state": "int8", "options": OPTIONS},
}
# By name: the kind in bench/scale_peers.py, and its package.
PEERS = {
    "torch DDP + ZeroRedundancyOptimizer": ("zero", "torch"),
    "torch FSDP2": ("fsdp2", "torch"),
    "torch FSDP2 + torchao AdamW8bit": ("fsdp2 torchao", "torchao"),
    "torch FSDP2 + jitstep int8 (Python)": ("fsdp2 jitstep", "torch"),
    "DeepSpeed ZeRO-1": ("deepspeed 1", "deepspeed"),
    "DeepSpeed ZeRO-2": ("deepspeed 2", "deepspeed"),
}


def own_network():
    """Moves this process into a network that has only a loopback device. Returns whether the system allows it."""
    clone_newnet, up, get_flags, set_flags = 0x40000000, 0x1, 0x8913, 0x8914
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newnet) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, get_flags, request))[1]
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))
    return True


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


def run_ranks(command, ranks, seconds):
    """Runs a command on all ranks. Returns their lines of JSON, or the reason why there are none."""
    environment = library_environment.variables(1) | {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with tempfile.TemporaryDirectory() as logs:
        started = []
        for rank in range(ranks):
            errors = open(pathlib.Path(logs, str(rank)), "w+")
            started.append(
                (
                    subprocess.Popen(
                        [str(part) for part in command],
                        env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                    ),
                    errors,
                )
            )
        results, reason = [], None
        for process, errors in started:
            try:
                output, _ = process.communicate(timeout=seconds if reason is None else 10)
            except subprocess.TimeoutExpired:
                process.kill()
                output, reason = process.communicate()[0], reason or f"it took more than {seconds} s"
            lines = [line for line in output.splitlines() if line.startswith("{")]
            if process.returncode == 0 and lines:
                results.append(json.loads(lines[-1]))
            elif reason is None:
                errors.seek(0)
                said = [line.strip() for line in errors.read().splitlines() if line.strip()]
                reason = next((line for line in reversed(said) if "Error" in line), said[-1] if said else "no message")[
                    :200
                ]
            errors.close()
    return {"reason": reason} if reason else {"results": results}


def check(results):
    """Ranks end with the same parameters. Otherwise the figures mean nothing."""
    if len({rank["hash"] for rank in results}) != 1:
        return {"reason": "its ranks end with different parameters"}
    return {"results": results}


def commands(arguments, absent):
    """Name, command and reason why it cannot run, for each library."""
    common = ["--workload", arguments.workload, "--rounds", arguments.rounds]
    for name, spec in OURS.items():
        yield name, [arguments.program, "--spec", json.dumps(spec), *common], None
    for name, (kind, package) in PEERS.items():
        yield name, [arguments.python, ROOT / "bench/scale_peers.py", kind, *common], absent.get(package)


def begin(arguments, separate):
    """The result of a stopped call with the same settings, or a new one."""
    title = json.loads((ROOT / "bench/shapes.json").read_text())[arguments.workload]["title"]
    new = {
        "date": datetime.date.today().isoformat(),
        "machine": machine_class(),
        "note": arguments.note,
        "revision": revision(),
        "network": "a loopback device of its own" if separate else "the loopback device, which other programs use too",
        "workload": arguments.workload,
        "title": title,
        "rounds": arguments.rounds,
        "load_average": [],
        "runs": [],
    }
    if not arguments.out.exists():
        return new
    old = json.loads(arguments.out.read_text())
    same = all(old[key] == new[key] for key in ("revision", "machine", "note", "network", "workload", "rounds"))
    if not same:
        sys.exit(
            f"scale.py: {arguments.out} was measured with other settings or another revision. Use --out for another "
            "file, or remove it."
        )
    return old


def measure(arguments):
    separate = own_network()
    absent = (
        library_environment.missing(arguments.python)
        if pathlib.Path(arguments.python).exists()
        else {package: "bench/compare.py --prepare has not installed it" for package in library_environment.PACKAGES}
    )
    result = begin(arguments, separate)
    done = {(run["name"], run["ranks"]) for run in result["runs"]}
    for name, command, reason in commands(arguments, absent):
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        for ranks in arguments.ranks:
            if (name, ranks) in done:
                continue
            print(f"{name}, {ranks} ranks", file=sys.stderr, flush=True)
            result["load_average"].append(os.getloadavg()[0])
            made = {"reason": reason}
            if reason is None:
                with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
                    made = run_ranks([*command, "--folder", folder], ranks, arguments.seconds)
            if "results" in made:
                made = check(made["results"])
            else:
                print(f"  not measured: {made['reason']}", file=sys.stderr)
            result["runs"].append({"name": name, "ranks": ranks} | made)
            replace_text(arguments.out, json.dumps(result, indent=1) + "\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=ROOT / "bench/results/scale.json",
        help="the numbers; the page has the same path with .md",
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=600, help="limit of a run")
    parser.add_argument("--workload", default="gpt2_block", help="a name in bench/shapes.json")
    parser.add_argument("--only", action="append", help="measure only libraries with this in their name")
    parser.add_argument("--note", default="", help="a sentence for the page, such as what else used the computer")
    parser.add_argument("--scratch", help="folder for checkpoints (default: the system's temporary folder)")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bench/scale_rank")
    parser.add_argument(
        "--python", type=pathlib.Path, default=library_environment.python_of(library_environment.FOLDER)
    )
    parser.add_argument("--table", action="store_true", help="measure nothing")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if not arguments.table:
        measure(arguments)
    result = json.loads(arguments.out.read_text())
    arguments.out.with_suffix(".md").write_text(page(result, arguments.out.name))


if __name__ == "__main__":
    main()
