#!/usr/bin/env python3
"""Reports the SASS of GPU kernels, and predicts their speed. Needs no GPU.

  tools/sass_report.py --setup                    # downloads nvdisasm once, from PyPI's triton (290 MB), to .deps/sass
  tools/sass_report.py                            # prints the table of bench/results/sass_sm_90.md
  tools/sass_report.py --target sm_80 --kernel adamw/int8/bfloat16 --listing

Needs build/tools/jitstep and NVRTC (JITSTEP_NVRTC, or the one in .deps/venv). JITSTEP_TEMPLATES=FOLDER selects other
templates. Exit status 77: a tool is missing. The message names it.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import sass

ROOT = pathlib.Path(__file__).resolve().parent.parent
NVDISASM = ROOT / ".deps/sass/nvdisasm"
INSIDE = "triton/backends/nvidia/bin/nvdisasm"
MISSING = 77

BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "fp8_e5m2": 1,
    "int8": 1,
    "int4": 0.5,
}
TILE = 256  # elements that a team processes together


@dataclasses.dataclass(frozen=True)
class Gpu:
    """H100 SXM: 132 multiprocessors at 1.755 GHz share 3.35 TB/s."""

    bytes_per_clock: float = 14.5  # of DRAM, for one multiprocessor
    threads: int = 2048
    registers: int = 65536
    issued_per_clock: int = 4  # warp instructions per multiprocessor
    clocks_of_special: int = 2  # for which MUFU, F2I, I2F and FCHK of a warp occupy their unit


@dataclasses.dataclass(frozen=True)
class Kernel:
    rule: str
    state: str
    weights: str = "float32"  # a dtype, or "stochastic"

    @property
    def dtype(self):
        return "bfloat16" if self.weights == "stochastic" else self.weights

    @property
    def entry(self):
        return "jitstep_partials_0" if self.rule == "lamb" else "jitstep_apply"

    def spec(self):
        weights = "stochastic" if self.weights == "stochastic" else "native"
        return json.dumps({"rule": self.rule, "state": self.state, "weights": weights})

    def loaded(self):
        """Bytes per element that the kernel reads: parameter, gradient and two slots."""
        return 2 * BYTES[self.dtype] + 2 * BYTES[self.state]

    def stored(self):
        return 0 if self.rule == "lamb" else BYTES[self.dtype] + 2 * BYTES[self.state]


KERNELS = [
    Kernel("adamw", state, weights)
    for weights in ("float32", "bfloat16", "stochastic")
    for state in ("fp32", "bf16", "int8", "int4")
]
KERNELS += [
    Kernel("lamb", state, weights) for weights in ("float32", "bfloat16") for state in ("fp32", "bf16", "int8", "int4")
]


class Missing(Exception):
    """A tool is missing. The message names it and tells how to get it."""


# ---- tools -------------------------------------------------------------------------------------


def set_up():
    if NVDISASM.exists():
        return
    NVDISASM.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=NVDISASM.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", folder]
        subprocess.run([*pip, "triton"], check=True)
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            new = NVDISASM.with_suffix(".new")
            new.write_bytes(wheel.read(INSIDE))
    new.chmod(0o755)
    new.rename(NVDISASM)


def environment():
    """The environment, with JITSTEP_NVRTC set to the NVRTC in .deps/venv if it is not set."""
    found = sorted((ROOT / ".deps/venv/lib").glob("python3*/site-packages/nvidia/*/lib/libnvrtc.so.*"))
    return ({"JITSTEP_NVRTC": str(found[0].parent)} if found else {}) | os.environ


def compiled(tool, kernel, target, folder):
    """The JSON that `jitstep compile` prints."""
    if not pathlib.Path(tool).exists():
        raise Missing(f"{tool} is not built. Run ninja -C build jitstep_tool.")
    command = [
        tool,
        "compile",
        kernel.spec(),
        "--json",
        "--param",
        kernel.dtype,
        "--grad",
        kernel.dtype,
        "--target",
        target,
        "--out",
        folder,
    ]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if run.returncode != 0 and "NVRTC" in run.stderr and "was not found" in run.stderr:
        raise Missing(run.stderr.strip())
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    return json.loads(run.stdout)


def disassembled(file):
    if not NVDISASM.exists():
        raise Missing("nvdisasm is missing. Run tools/sass_report.py --setup.")
    return subprocess.run([NVDISASM, "-c", "-hex", file], check=True, capture_output=True, text=True).stdout


# ---- one kernel --------------------------------------------------------------------------------


@dataclasses.dataclass
class Measured:
    """The instructions of one lane for a whole tile."""

    kernel: Kernel
    resources: dict
    threads: int
    per_lane: int  # elements
    iteration: list
    from_memory: list  # for each instruction, whether it is a load of values, codes or scales
    uniform: int  # loads from addresses that all lanes share: pointers, options
    look_ups: int  # loads from tables in shared memory or constants, by an index

    def __post_init__(self):
        self.replay = sass.replay(self.iteration, self.from_memory)

    def accesses(self, which):
        """Widths in bytes of the loads or stores of values, codes and scales."""
        if which == "loads":
            return sorted(i.width() for i, far in zip(self.iteration, self.from_memory) if far)
        return sorted(i.width() for i in self.iteration if i.is_store)

    def local(self):
        return sum(i.op.startswith(("LDL", "STL")) for i in self.iteration)

    def blocks(self, gpu):
        granted = -(-self.resources["registers"] // 8) * 8 * self.threads
        return min(gpu.registers // granted, gpu.threads // self.threads)

    def warps(self, gpu):
        return self.blocks(gpu) * self.threads // 32

    def in_flight(self, gpu):
        """Bytes in flight to one multiprocessor."""
        return self.replay.in_flight * 32 * self.warps(gpu)

    def roofline(self, gpu):
        """An upper bound of the fraction of DRAM bandwidth, and its limiting factor."""
        tile = (self.kernel.loaded() + self.kernel.stored()) * self.per_lane * 32
        special = sum(i.op.startswith(("MUFU", "F2I", "I2F", "FCHK")) for i in self.iteration)
        limits = {
            "latency": tile * self.warps(gpu) / self.replay.cycles,
            "issue": tile * gpu.issued_per_clock / len(self.iteration),
            "special units": tile / (special * gpu.clocks_of_special) if special else float("inf"),
        }
        why = min(limits, key=limits.get)
        fraction = limits[why] / gpu.bytes_per_clock
        return (1.0, "memory") if fraction >= 1 else (fraction, why)


def measure(tool, kernel, target, folder):
    made = compiled(tool, kernel, target, folder)
    per_lane = TILE // made["config"]["tile_lanes"]
    body = sass.parse(disassembled(made["file"]))[kernel.entry]
    preamble, iteration = sass.whole_tile(body, int(per_lane * kernel.loaded()), int(per_lane * kernel.stored()))
    by_lane = sass.lane_dependent(preamble, iteration)
    return Measured(
        kernel,
        next(r for r in made["resources"] if r["entry"] == kernel.entry),
        made["config"]["threads"],
        per_lane,
        iteration,
        [i.is_load and own for i, own in zip(iteration, by_lane)],
        sum(i.is_load and not own and not i.predicate for i, own in zip(iteration, by_lane)),
        sum(i.is_look_up and own for i, own in zip(iteration, by_lane)),
    )


# ---- the table ---------------------------------------------------------------------------------

HEAD = """# The GPU kernels in SASS, {target}

`tools/sass_report.py --target {target}`, {date}. Nothing was run on a GPU. Figures are for a whole, aligned tile of 256 elements \
in a step after the first.

- Loads, stores: of values, codes and scales, per lane and tile, as number x bytes.
- Uniform: loads of pointers and options that all lanes share.
- Look-ups: loads from tables.
- In flight: maximum of bytes in flight to one multiprocessor. {needed:.0f} KB hide the DRAM latency.
- Cycles: for one tile in one warp alone.
- Roofline: expected fraction of an H100's DRAM bandwidth, and the limiting factor.

Assumptions: {latency} cycles latency of DRAM, {near} of other loads; stalls and waits as encoded in the instructions; \
{bytes_per_clock} bytes of DRAM per clock and multiprocessor; 4 instructions issued per clock; 2 clocks for MUFU, F2I and FCHK;
no branches for denormal operands. Expect errors of 30 %. The order of kernels is more reliable.

| kernel | instructions/element | loads | stores | uniform | look-ups | registers (blocks) | spills, bytes | in flight, KB | cycles | roofline, % |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def counted(widths):
    return ", ".join(f"{widths.count(w)} x {w}" for w in sorted(set(widths), reverse=True)) or "none"


def row(one, gpu):
    fraction, why = one.roofline(gpu)
    kernel = one.kernel
    name = f"`{kernel.rule}` {'partials ' if kernel.rule == 'lamb' else ''}{kernel.state}, p {kernel.weights}"
    cells = [
        name,
        f"{len(one.iteration) / one.per_lane:.0f}",
        counted(one.accesses("loads")),
        counted(one.accesses("stores")),
        one.uniform,
        one.look_ups,
        f"{one.resources['registers']} ({one.blocks(gpu)})",
        one.resources["spill_bytes"],
        f"{one.in_flight(gpu) / 1024:.0f}",
        one.replay.cycles,
        f"{100 * fraction:.0f} ({why})",
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def chosen(names):
    if not names:
        return KERNELS
    for name in names:
        if name.count("/") != 2:
            sys.exit(f"sass_report: --kernel {name} is not rule/state/weights, such as adamw/int8/float32")
    return [Kernel(*name.split("/")) for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true", help="only download nvdisasm")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--kernel", action="append", help="rule/state/weights, where weights are a dtype or stochastic")
    parser.add_argument("--tool", default=str(ROOT / "build/tools/jitstep"))
    parser.add_argument("--listing", action="store_true", help="print the instructions of a tile instead")
    arguments = parser.parse_args()
    if arguments.setup:
        return set_up()
    gpu = Gpu()
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(arguments.tool, k, arguments.target, folder) for k in chosen(arguments.kernel)]
    if arguments.listing:
        for one in found:
            print(f"# {one.kernel}", *(f"{i.predicate:5}{i.op:24}{i.operands}" for i in one.iteration), sep="\n")
        return
    print(
        HEAD.format(
            target=arguments.target,
            date=datetime.date.today(),
            latency=sass.DRAM,
            near=sass.NEAR,
            bytes_per_clock=gpu.bytes_per_clock,
            needed=gpu.bytes_per_clock * sass.DRAM / 1024,
        )
        + "".join(row(one, gpu) for one in found),
        end="",
    )


if __name__ == "__main__":
    try:
        main()
    except Missing as missing:
        print(f"sass_report: {missing}", file=sys.stderr)
        sys.exit(MISSING)
