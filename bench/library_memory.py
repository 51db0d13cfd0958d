#!/usr/bin/env python3
"""Measures the memory of other libraries' optimizers: bytes of a matrix of 1024 x 1024, its gradient and all its state.

  .deps/libraries/bin/python bench/library_memory.py    # writes bench/results/library_memory.json

bench/compare.py --prepare installs the packages. Temporary memory of a step is not counted. torch.compile is disabled,
which does not change the state. tools/memory_table.py writes the figures to docs/guides/memory.md.
"""

import datetime
import importlib
import importlib.metadata
import json
import os
import pathlib

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import torch
from library_implementations import state_of

RESULTS = pathlib.Path(__file__).resolve().parent / "results/library_memory.json"
SIDE = 1024
# Package, module, class, dtypes of the parameters, arguments in addition to the learning rate.
LIBRARIES = [
    ("torch", "torch.optim", "AdamW", ["float32", "bfloat16"], {}),
    ("deepspeed", "deepspeed.ops.adam", "DeepSpeedCPUAdam", ["float32"], {}),
    ("torchao", "torchao.optim", "AdamW8bit", ["float32", "bfloat16"], {}),
    ("torchao", "torchao.optim", "AdamWFp8", ["float32", "bfloat16"], {}),
    ("torchao", "torchao.optim", "AdamW4bit", ["float32", "bfloat16"], {}),
    ("bitsandbytes", "bitsandbytes.optim", "AdamW8bit", ["float32", "bfloat16"], {}),
    ("bitsandbytes", "bitsandbytes.optim", "Lion8bit", ["float32", "bfloat16"], {}),
    ("torchastic", "torchastic", "AdamW", ["bfloat16"], {}),
    ("adamw-bf16", "adamw_bf16", "AdamWBF16", ["bfloat16"], {}),
    ("pytorch-lamb", "pytorch_lamb", "Lamb", ["float32"], {}),
]


def measured(package, module, name, dtype, options):
    parameter = torch.nn.Parameter(torch.randn(SIDE, SIDE, dtype=getattr(torch, dtype)))
    parameter.grad = torch.randn_like(parameter)
    optimizer = getattr(importlib.import_module(module), name)([parameter], lr=1e-3, **options)
    optimizer.step()
    return {
        "name": f"{package} {name}",
        "version": importlib.metadata.version(package),
        "dtype": dtype,
        "elements": parameter.numel(),
        "parameter_bytes": parameter.nbytes,
        "gradient_bytes": parameter.grad.nbytes,
        "state_bytes": state_of(optimizer)[0],
    }


def main():
    rows = [
        measured(package, module, name, dtype, options)
        for package, module, name, dtypes, options in LIBRARIES
        for dtype in dtypes
    ]
    result = {"date": datetime.date.today().isoformat(), "rows": rows}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
