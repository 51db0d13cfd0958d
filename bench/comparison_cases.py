"""The cases of bench/compare.py. In a case, all implementations have parameters of the same dtype.

A row of a case is an implementation. It has a name, a process (cpp is build/bench/implementation_server, the others are
library_implementations.py, one process for each package), a description for that process, and the name of its bandwidth
baseline.
"""

LR, DECAY = 1e-3, 1e-2


def baseline(name, state, arrays):
    return {"name": name, "process": "cpp", "make": {"kind": "baseline", "state": state, "arrays": arrays}}


def cpp(name, kind, bound):
    return {"name": name, "process": "cpp", "make": {"kind": kind}, "bound": bound}


def jitstep(name, spec, bound):
    spec = spec | {"options": {"lr": LR, "weight_decay": DECAY}}
    return {"name": name, "process": "cpp", "make": {"kind": "jitstep", "spec": spec}, "bound": bound}


def library(name, package, kind, bound):
    return {"name": name, "process": package, "make": {"kind": kind}, "bound": bound}


def references(bound):
    return [
        cpp("torch::optim::AdamW", "torch loop", bound),
        cpp("torch fused (at::_fused_adamw_)", "torch fused", bound),
    ]


B28, B20, B16 = "bandwidth baseline, 28 bytes", "bandwidth baseline, 20 bytes", "bandwidth baseline, 16 bytes"
B14 = "bandwidth baseline, 14 bytes"
B18 = "bandwidth baseline, 18 bytes"

# `small`: whether the case makes sense for tensors of fewer than 4096 elements, for which jitstep, torchao and
# bitsandbytes store float32 state. `pairs`: pairs of rows for which the page also prints the ratio of times.
CASES = {
    "float32 state": {
        "dtype": "float32",
        "small": True,
        "pairs": [],
        "rows": [
            baseline(B28, "float32", 2),
            cpp("plain AdamW, written by hand", "plain AdamW", B28),
            *references(B28),
            library("torch foreach", "torch", "foreach", B28),
            library("torch fused, from Python", "torch", "fused", B28),
            library("DeepSpeed CPUAdam", "deepspeed", "deepspeed", B28),
            jitstep("jitstep AdamW", {"rule": "adamw"}, B28),
            library("jitstep AdamW, from Python", "jitstep", "jitstep", B28),
        ],
    },
    "state of 16, 8 and 4 bits": {
        "dtype": "float32",
        "small": False,
        "pairs": [],
        "rows": [
            baseline(B28, "float32", 2),
            baseline(B20, "bfloat16", 2),
            baseline(B16, "uint8", 2),
            baseline(B14, "uint8", 1),
            *references(B28),
            jitstep("jitstep AdamW", {"rule": "adamw"}, B28),
            jitstep("jitstep AdamW bf16", {"rule": "adamw", "state": "bf16"}, B20),
            jitstep("jitstep AdamW int8", {"rule": "adamw", "state": "int8"}, B16),
            library("jitstep AdamW int8, from Python", "jitstep", "jitstep int8", B16),
            library("torchao AdamW8bit, compiled", "torchao", "torchao 8", B16),
            library("bitsandbytes AdamW8bit", "bitsandbytes", "bitsandbytes 8", B16),
            library("FlashOptim FlashAdamW", "flashoptim", "flashoptim", B16),
            jitstep("jitstep AdamW int4", {"rule": "adamw", "state": "int4"}, B14),
            jitstep("jitstep AdamW int4_rank1", {"rule": "adamw", "state": "int4_rank1"}, B14),
            jitstep("jitstep AdamW factored", {"rule": "adamw", "state": "factored"}, B14),
            library("torchao AdamW4bit, compiled", "torchao", "torchao 4", B14),
        ],
    },
    "other formats of 16 and 8 bits": {
        "dtype": "float32",
        "small": False,
        "pairs": [],
        "rows": [
            baseline(B20, "bfloat16", 2),
            baseline(B16, "uint8", 2),
            *references(B16),
            jitstep("jitstep AdamW int8", {"rule": "adamw", "state": "int8"}, B16),
            *(
                jitstep(f"jitstep AdamW {state}", {"rule": "adamw", "state": state}, B20)
                for state in ("fp16", "bf16_sr")
            ),
            *(
                jitstep(f"jitstep AdamW {state}", {"rule": "adamw", "state": state}, B16)
                for state in ("int8_signed", "int8_softsign", "fp8", "fp8_e5m2", "fp8_expanded")
            ),
        ],
    },
    "bfloat16 weights, bfloat16 state": {
        "dtype": "bfloat16",
        "small": True,
        "pairs": [("jitstep AdamW, stochastic rounding", "jitstep AdamW, nearest")],
        "rows": [
            baseline(B14, "bfloat16", 2),
            baseline(B18, "bfloat16", 3),
            *references(B14),
            jitstep("jitstep AdamW, nearest", {"rule": "adamw", "state": "bf16"}, B14),
            jitstep(
                "jitstep AdamW, stochastic rounding", {"rule": "adamw", "state": "bf16", "weights": "stochastic"}, B14
            ),
            library("torchastic AdamW", "torchastic", "torchastic", B14),
            library("adamw-bf16 (PyPI) AdamWBF16", "adamw-bf16", "adamw_bf16", B18),
            library("adamw_bfloat16 (GitHub) AdamW_BF16", "adamw-bfloat16", "adamw_bfloat16", B18),
        ],
    },
    "LAMB": {
        "dtype": "float32",
        "small": True,
        "pairs": [("jitstep LAMB", "jitstep AdamW")],
        "rows": [
            baseline(B28, "float32", 2),
            *references(B28),
            jitstep("jitstep AdamW", {"rule": "adamw"}, B28),
            jitstep("jitstep LAMB", {"rule": "lamb"}, B28),
            library("pytorch-lamb Lamb", "pytorch-lamb", "lamb", B28),
        ],
    },
}
LOOP, FUSED = (row["name"] for row in references(""))

# jitstep's targets: workload, case, row, reference row, speed relative to the reference, and the reason if it is
# missed.
TARGETS = [
    ("one_tensor", "float32 state", "jitstep AdamW", B28, 0.95, "the fused kernel has the same gap"),
    (
        "one_tensor",
        "float32 state",
        "jitstep AdamW",
        FUSED,
        1.0,
        "both are at the memory's limit, where runs differ by 15 %",
    ),
    (
        "one_tensor",
        "float32 state",
        "jitstep AdamW",
        LOOP,
        7,
        "the bound itself is only 6 to 8 times as fast as the loop",
    ),
    (
        "small_tensors",
        "float32 state",
        "jitstep AdamW",
        FUSED,
        10,
        "the tensors are in the cache, where the fused kernel is fast as well. About 20 % of the step is host work: "
        "visiting 700 tensors whose metadata is no longer in the cache. A hand-written loop without that work is 1.5 "
        "times as fast",
    ),
    (
        "one_tensor",
        "bfloat16 weights, bfloat16 state",
        "jitstep AdamW, nearest",
        B14,
        0.8,
        "widening and rounding bfloat16 takes instructions, which show on a machine with fast memory",
    ),
    (
        "one_tensor",
        "bfloat16 weights, bfloat16 state",
        "jitstep AdamW, nearest",
        FUSED,
        1.5,
        "the fused kernel is near its bound too",
    ),
    (
        "one_tensor",
        "bfloat16 weights, bfloat16 state",
        "jitstep AdamW, stochastic rounding",
        "jitstep AdamW, nearest",
        1 / 1.15,
        "the random bits (seven Philox rounds for eight elements) are a third of the instructions",
    ),
    (
        "one_tensor",
        "state of 16, 8 and 4 bits",
        "jitstep AdamW int8",
        "jitstep AdamW",
        0.55,
        "instructions: each value is looked up in a table, measured and encoded",
    ),
    (
        "one_tensor",
        "state of 16, 8 and 4 bits",
        "jitstep AdamW int4",
        "jitstep AdamW",
        0.8,
        "instructions, as for int8",
    ),
    (
        "gpt2",
        "state of 16, 8 and 4 bits",
        "jitstep AdamW int4_rank1",
        "jitstep AdamW int4",
        1 / 1.5,
        "one more pass for the maxima along the dimensions, which decodes both state buffers, and a division per value",
    ),
    (
        "gpt2",
        "state of 16, 8 and 4 bits",
        "jitstep AdamW factored",
        "jitstep AdamW int4",
        1 / 1.5,
        "one more launch, which reads the gradient for row and column sums",
    ),
    *(
        ("one_tensor", "other formats of 16 and 8 bits", f"jitstep AdamW {state}", "jitstep AdamW int8", 1, limit)
        for state, limit in (
            ("fp8", "the same memory"),
            ("int8_signed", "the same memory"),
            ("int8_softsign", "square roots and divisions, in blocks of 32"),
            ("fp8_expanded", "two logarithms and two powers per value"),
        )
    ),
    (
        "one_tensor",
        "state of 16, 8 and 4 bits",
        "jitstep AdamW int8",
        "torchao AdamW8bit, compiled",
        20,
        "instructions",
    ),
    ("one_tensor", "state of 16, 8 and 4 bits", "jitstep AdamW int8", "bitsandbytes AdamW8bit", 10, "instructions"),
    ("one_tensor", "state of 16, 8 and 4 bits", "jitstep AdamW int8", LOOP, 4, "instructions"),
    (
        "one_tensor",
        "LAMB",
        "jitstep LAMB",
        "jitstep AdamW",
        1 / 1.6,
        "its first pass reads 16 bytes, which takes 0.82 times as long as the 28 bytes that AdamW reads and writes. So "
        "1.82 times AdamW's time is the bound",
    ),
]
