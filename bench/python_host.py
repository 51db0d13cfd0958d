#!/usr/bin/env python3
"""Measures the host time of a step of jitstep's Python classes and torch's, in CPU time of one thread.

  PYTHONPATH=build/python .deps/venv/bin/python bench/python_host.py [--rounds N]

700 parameters of 50 elements, so that a step is mostly host work. Rounds are paired: in each one, every implementation
takes its steps after the others. `warm`: a step right after another one. `cold`: a step after 64 MiB of other memory
has been read, as in training, where the forward and backward passes have filled the caches. `new`: a step after all
parameters have got new memory.
`int8` quantizes, which small parameters otherwise do not. A time is the least of all rounds, in microseconds.
"""

import argparse
import time

import torch

import jitstep

COUNT, ELEMENTS = 700, 50
IMPLEMENTATIONS = {
    "torch fused": lambda p: torch.optim.AdamW(p, fused=True),
    "torch foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "jitstep": lambda p: jitstep.AdamW(p),
    "jitstep int8": lambda p: jitstep.AdamW(p, state="int8", min_quantized_size=0),
}


def timed(action):
    start = time.thread_time_ns()
    action()
    return (time.thread_time_ns() - start) / 1000


class Measured:
    def __init__(self, make):
        self.parameters = [torch.nn.Parameter(torch.randn(ELEMENTS)) for _ in range(COUNT)]
        for p in self.parameters:
            p.grad = torch.randn(ELEMENTS)
        self.optimizer = make(self.parameters)
        self.optimizer.step()
        self.least = {}

    def record(self, what, microseconds):
        self.least[what] = min(microseconds, self.least.get(what, microseconds))

    def measure(self, other):
        other.add_(1)
        self.record("cold", timed(self.optimizer.step))
        for _ in range(5):
            self.record("warm", timed(self.optimizer.step))

    def move(self):
        for p in self.parameters:
            p.data = p.data.clone()
        self.record("new", timed(self.optimizer.step))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    other = torch.zeros(16 << 20)
    all_measured = {name: Measured(make) for name, make in IMPLEMENTATIONS.items()}
    for _ in range(arguments.rounds):
        for measured in all_measured.values():
            measured.measure(other)
    for _ in range(arguments.rounds // 4 + 1):
        for measured in all_measured.values():
            measured.move()
    fused = all_measured["torch fused"].least
    print(f"| {COUNT} tensors of {ELEMENTS} elements | warm | of fused | cold | of fused | new memory |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, measured in all_measured.items():
        least = measured.least
        warm, cold = (f"{least[what]:.0f} | {least[what] / fused[what]:.3f}" for what in ("warm", "cold"))
        print(f"| {name} | {warm} | {cold} | {least['new']:.0f} |")


if __name__ == "__main__":
    main()
