#!/usr/bin/env python3
"""Measures steps of jitstep's Python classes on an NVIDIA GPU, against those of torch, bitsandbytes and torchao.

  PYTHONPATH=build/python python bench/python_gpu.py [--rounds N] [--json FILE] [--only CASE...]

Rounds are paired: in each one, every implementation takes one step, in an order that rotates. `device` is the time
between two CUDA events around the step. The GPU first sleeps, so that the host has submitted the whole step before it
begins. `host` is the time of the call of step(). Both are medians in microseconds. `of fused` is the median of the
rounds' ratios to torch's fused AdamW of the same parameters. GB/s counts the bytes that a step must read and write:
parameters and state twice, gradients once. bitsandbytes and torchao take part if they can be imported.
`--device cpu` tests this program: all times are then host times.
"""

import argparse
import functools
import gc
import json
import statistics
import time
from pathlib import Path

import torch
from library_implementations import state_of

import jitstep

SHAPES = json.loads(Path(__file__).with_name("shapes.json").read_text())
CASES = {
    "large": ("one tensor of 64M elements", [[1 << 26]]),
    "gpt2": (SHAPES["gpt2"]["title"], SHAPES["gpt2"]["shapes"]),
    "many": ("700 tensors of 1000 elements, whose state bitsandbytes and torchao keep in float32", [[1000]] * 700),
    "empty": ("700 empty tensors", [[0]] * 700),
}
SLEEP_CYCLES = 40_000_000  # about 20 ms
BF16 = torch.bfloat16


def libraries():
    """8-bit optimizers of other libraries that can be imported."""
    found = {}
    try:
        from bitsandbytes.optim import AdamW8bit

        found["bitsandbytes 8 bits"] = (torch.float32, AdamW8bit)
    except Exception as error:
        print(f"no bitsandbytes: {error}")
    try:
        from torchao.optim import AdamW8bit as TorchaoAdamW8bit

        found["torchao 8 bits"] = (torch.float32, TorchaoAdamW8bit)
    except Exception as error:
        print(f"no torchao: {error}")
    return found


@functools.cache
def implementations():
    """By name: the dtype of the parameters and the optimizer."""
    ours, theirs = jitstep.AdamW, torch.optim.AdamW
    return {
        "torch fused": (torch.float32, functools.partial(theirs, fused=True)),
        "torch foreach": (torch.float32, functools.partial(theirs, foreach=True)),
        "jitstep": (torch.float32, ours),
        "jitstep bf16 state": (torch.float32, functools.partial(ours, state="bf16")),
        "jitstep int8 state": (torch.float32, functools.partial(ours, state="int8", min_quantized_size=0)),
        "jitstep int4 state": (torch.float32, functools.partial(ours, state="int4", min_quantized_size=0)),
        **libraries(),
        "torch fused, bf16": (BF16, functools.partial(theirs, fused=True)),
        "torch foreach, bf16": (BF16, functools.partial(theirs, foreach=True)),
        "jitstep bf16 weights and state": (BF16, functools.partial(ours, weights="stochastic", state="bf16")),
        "jitstep bf16 weights, int8 state": (
            BF16,
            functools.partial(ours, weights="stochastic", state="int8", min_quantized_size=0),
        ),
    }


class Measured:
    def __init__(self, dtype, make, shapes, device):
        self.device = device
        self.parameters = [torch.nn.Parameter(torch.randn(s, device=device).to(dtype)) for s in shapes]
        for p in self.parameters:
            p.grad = torch.randn_like(p)
        self.optimizer = make(self.parameters, lr=1e-4)
        for _ in range(5):  # compiles and makes the state
            self.optimizer.step()
        synchronize(device)
        state, _ = state_of(self.optimizer)
        weights = sum(p.nbytes for p in self.parameters)
        self.bytes = 2 * (weights + state) + sum(p.grad.nbytes for p in self.parameters)
        self.device_us, self.host_us = [], []

    def step(self):
        if self.device.type != "cuda":
            self.host_us.append(timed(self.optimizer.step))
            self.device_us.append(self.host_us[-1])
            return
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES)
        start.record()
        self.host_us.append(timed(self.optimizer.step))
        end.record()
        torch.cuda.synchronize()
        self.device_us.append(start.elapsed_time(end) * 1000)


def timed(action):
    start = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - start) / 1000


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(shapes, device, rounds):
    """The measured implementations by name, and the errors of others."""
    measured, failed = {}, {}
    for name, (dtype, make) in implementations().items():
        try:
            measured[name] = Measured(dtype, make, shapes, device)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    order = list(measured.values())
    for i in range(rounds):
        first = i % len(order)
        for one in order[first:] + order[:first]:
            one.step()
    return measured, failed


def row_of(name, measured):
    one = measured[name]
    fused = measured.get("torch fused, bf16" if one.parameters[0].dtype == BF16 else "torch fused")
    device, host = statistics.median(one.device_us), statistics.median(one.host_us)
    row = {
        "device_us": device,
        "host_us": host,
        "bytes": one.bytes,
        "gb_per_s": one.bytes / device / 1000 if device else 0,
    }
    if fused is not None:
        row["of_fused"] = statistics.median(a / b for a, b in zip(one.device_us, fused.device_us, strict=True))
        row["host_of_fused"] = statistics.median(a / b for a, b in zip(one.host_us, fused.host_us, strict=True))
    return row


def show(title, rows, failed):
    print(f"\n| {title} | device | of fused | GB/s | host | of fused |\n|---|---:|---:|---:|---:|---:|")
    for name, row in rows.items():
        ratios = [f"{row[key]:.3f}" if key in row else "" for key in ("of_fused", "host_of_fused")]
        numbers = [f"{row['device_us']:.1f}", ratios[0], f"{row['gb_per_s']:.0f}", f"{row['host_us']:.1f}", ratios[1]]
        print(f"| {name} | {' | '.join(numbers)} |")
    for name, error in failed.items():
        print(f"{name} failed: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", metavar="FILE", help="also writes the numbers to a file")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="cases to measure. Default: all")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    report = {"device": name, "torch": torch.__version__, "jitstep": jitstep.__version__, "cases": {}}
    print(f"{name}, torch {torch.__version__}, medians of {arguments.rounds} rounds, microseconds")
    for case in arguments.only:
        title, shapes = CASES[case]
        measured, failed = measure(shapes, device, arguments.rounds)
        rows = {name: row_of(name, measured) for name in measured}
        show(title, rows, failed)
        report["cases"][case] = {"title": title, "rows": rows, "failed": failed}
        del measured
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
