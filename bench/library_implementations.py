"""Runs steps of Python libraries on request. bench/compare.py starts it as a child process, in the environment of the
libraries.

Each line of standard input is a request, and each line of standard output is its answer, both as JSON. The protocol is
that of bench/implementation_server.cpp. Output of the libraries goes to standard error.
"""

import gc
import importlib
import importlib.metadata
import json
import os
import sys
import time

import torch

LR, DECAY = 1e-3, 1e-2


def preheated():
    from adamw_bfloat16 import LR as Schedule

    return {"lr_function": Schedule(lr=LR, preheat_steps=1)}


# By kind: the package's name for pip, module and class of its optimizer, and a function that returns its arguments
# without weight decay.
KINDS = {
    "foreach": ("torch", "torch.optim", "AdamW", lambda: {"lr": LR, "foreach": True}),
    "fused": ("torch", "torch.optim", "AdamW", lambda: {"lr": LR, "fused": True}),
    "jitstep": ("jitstep", "jitstep", "AdamW", lambda: {"lr": LR}),
    "jitstep int8": ("jitstep", "jitstep", "AdamW", lambda: {"lr": LR, "state": "int8"}),
    "deepspeed": ("deepspeed", "deepspeed.ops.adam", "DeepSpeedCPUAdam", lambda: {"lr": LR}),
    "torchao 8": ("torchao", "torchao.optim", "AdamW8bit", lambda: {"lr": LR}),
    "torchao 4": ("torchao", "torchao.optim", "AdamW4bit", lambda: {"lr": LR}),
    "bitsandbytes 8": ("bitsandbytes", "bitsandbytes.optim", "AdamW8bit", lambda: {"lr": LR}),
    "flashoptim": ("flashoptim", "flashoptim", "FlashAdamW", lambda: {"lr": LR}),
    "lamb": ("pytorch-lamb", "pytorch_lamb", "Lamb", lambda: {"lr": LR}),
    "torchastic": ("torchastic", "torchastic", "AdamW", lambda: {"lr": LR}),
    "adamw_bf16": ("adamw-bf16", "adamw_bf16", "AdamWBF16", lambda: {"lr": LR}),
    "adamw_bfloat16": ("adamw-bfloat16", "adamw_bfloat16", "AdamW_BF16", preheated),
}


def optimizer_of(kind, parameters):
    _, module, name, options = KINDS[kind]
    optimizer = getattr(importlib.import_module(module), name)
    return optimizer(parameters, **options(), weight_decay=DECAY)


def version_of(package):
    """The version of an installed package, or of one in a build folder."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return importlib.import_module(package).__version__


def plain_tensors(value):
    """The tensor itself, or the inner tensors of a tensor subclass."""
    if hasattr(value, "__tensor_flatten__"):
        for name in value.__tensor_flatten__()[0]:
            yield from plain_tensors(getattr(value, name))
    elif isinstance(value, torch.Tensor):
        yield value


def state_of(optimizer):
    """Bytes and dtypes of the state. Tensors that parameters share count once."""
    tensors = {}
    for state in optimizer.state.values():
        for value in state.values():
            for tensor in plain_tensors(value):
                tensors[tensor.data_ptr()] = tensor
    large = {str(t.dtype).removeprefix("torch.") for t in tensors.values() if t.numel() > 1}
    return sum(t.nbytes for t in tensors.values()), sorted(large)


class Session:
    def __init__(self):
        self.parameters, self.optimizers = [], []

    def load(self, request):
        self.unload({})
        torch.set_num_threads(request["threads"])
        torch.manual_seed(1)
        dtype = getattr(torch, request["dtype"])
        for shape in request["shapes"]:
            parameter = torch.nn.Parameter(torch.randn(shape, dtype=dtype))
            parameter.grad = torch.randn(shape, dtype=dtype).mul_(1 / 128)  # exactly, in every dtype
            self.parameters.append(parameter)
        total = sum(values.sum(dtype=torch.float64).item() for p in self.parameters for values in (p.detach(), p.grad))
        return {"sum": total, "threads": torch.get_num_threads(), "torch": torch.__version__}

    def make(self, request):
        kind = request["implementation"]["kind"]
        if kind not in KINDS:
            raise ValueError(f"there is no implementation of the kind {kind}")
        package = KINDS[kind][0]
        before = [p.detach().flatten()[:256].clone() for p in self.parameters]
        optimizer = optimizer_of(kind, self.parameters)
        optimizer.step()
        self.optimizers.append(optimizer)
        after = [p.detach().flatten()[:256] for p in self.parameters]
        state_bytes, state = state_of(optimizer)
        return {
            "changed": sum(not torch.equal(a, b) for a, b in zip(before, after)),
            "dtype": str(self.parameters[0].dtype).removeprefix("torch."),
            "state_bytes": state_bytes,
            "state": state,
            "package": f"{package} {version_of(package)}",
        }

    def step(self, request):
        step = self.optimizers[request["implementation"]].step
        for _ in range(request["untimed"]):
            step()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(request["timed"]):
            step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"seconds": wall / request["timed"], "cpu_seconds": cpu / request["timed"]}

    def unload(self, _):
        self.parameters, self.optimizers = [], []
        gc.collect()
        return {}

    def answer(self, request):
        return getattr(self, request["do"])(request)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()
    session = Session()
    for line in sys.stdin:
        try:
            answer = session.answer(json.loads(line))
        except Exception as error:  # any exception of a package becomes the reason why it is not measured
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
