"""Sums of the gradients of micro-batches, in few bits without a loss of small gradients."""

import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from . import _core, supported
from .backward import GradHooks, Nesting
from .sharded import is_dtensor

_INSTEAD_OF_DDP = (
    "Train the module without DistributedDataParallel, and average the gradients over processes after "
    "assign_gradients()."
)


def _is_unshared(tensor: Tensor, references: int) -> bool:
    """True if nobody else can read the tensor: neither Python, nor torch, nor a view. `references`: of the caller."""
    try:
        storage = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
        owners = tensor._use_count()  # type: ignore[attr-defined]
        return sys.getrefcount(tensor) <= references + 2 and owners == 1 and storage <= 2
    except AttributeError:  # another version of torch
        return False


def _check_parameter(number: int, p: Tensor) -> None:
    if is_dtensor(p):
        raise ValueError("jitstep: GradAccumulator cannot use DTensor parameters. Let FSDP2 accumulate gradients.")
    if p.requires_grad and (p.dtype not in supported.DTYPES or not supported.has_kernels(p)):
        raise ValueError(
            f"jitstep: GradAccumulator cannot use parameter {number} ({p.dtype} on {p.device}). Use float64, float32, "
            "bfloat16 or float16 on the CPU or an NVIDIA GPU."
        )


def _listed(parameters: Any) -> list[Tensor]:
    """The parameters, each once. As torch's optimizers, this takes tensors, or pairs of name and tensor."""
    if isinstance(parameters, Tensor) or not isinstance(parameters, Iterable):
        raise TypeError(
            "jitstep: GradAccumulator: parameters should be an iterable of Tensors, not "
            f"{torch.typename(parameters)}. Pass model.parameters()."
        )
    found: dict[int, Tensor] = {}
    for number, one in enumerate(parameters):
        p = one[1] if isinstance(one, tuple) and len(one) == 2 else one
        if not isinstance(p, Tensor):
            shown = f"jitstep: GradAccumulator: parameter {number} is a {type(p).__name__}."
            raise TypeError(f"{shown} Pass tensors, such as model.parameters().")
        found[id(p)] = p
    for number, p in enumerate(found.values()):
        _check_parameter(number, p)
    return list(found.values())


class _Sum:
    """One parameter and its sum."""

    def __init__(self, p: Tensor, dtype: torch.dtype) -> None:
        self.p, self.dtype = p, dtype
        self.values: Tensor | None = None
        self.started = False  # a gradient was added in this window
        self.waits = False  # p has a gradient that is not added yet
        self.version = 0  # of the gradient that waits
        self.grad_dtype = getattr(p, "grad_dtype", None)  # that torch permits

    def begin(self) -> Tensor:
        """-0 everywhere, the neutral element of additions. The tensor is used again if nobody else has it."""
        known = self.values
        fits = known is not None and (known.shape, known.device) == (self.p.shape, self.p.device)
        if known is None or not fits or not _is_unshared(known, references=2):
            known = self.values = torch.empty_like(self.p, dtype=self.dtype, requires_grad=False)
        return known.fill_(-0.0)


class GradAccumulator:
    """Moves the gradients of every backward() out of the parameters, and sums them in its own buffers.

        sums = jitstep.GradAccumulator(model.parameters())
        for micro_batches in data:
            for x, y in micro_batches:
                loss(model(x), y).backward()
            sums.assign_gradients()
            optimizer.step()
            optimizer.zero_grad()

    Additions are computed in float32 (float64 for float64 parameters) and rounded once. bfloat16 sums are rounded
    stochastically: the rounding error is zero on average. Results do not depend on the number of threads.

    Args:
        parameters: leaf tensors on the CPU or NVIDIA GPUs, also with names. Duplicates are ignored.
        dtype: of the sums, torch.bfloat16 or torch.float32. Sums of float64 parameters are float64. Default: bfloat16.
        rounding: of bfloat16 sums, "stochastic" or "nearest". Default: "stochastic".
        seed: of the random bits. Use the same in all replicas. Default: 0.
        max_waiting_bytes: limit for gradients that wait for one launch at the end of backward(). 0 adds each gradient
            at once, with the least memory and the most launches. Default: 256 MiB.
        mean: assign_gradients() divides by the number of micro-batches. Default: False.

    Raises ValueError for wrong arguments, and for parameters of another GradAccumulator or of an optimizer that steps
    in backward(). If a gradient cannot be added, for example a sparse one, backward() raises, and no sum has changed.
    DistributedDataParallel averages gradients after this class has read them: backward() raises RuntimeError. Train
    without that wrapper, and average the gradients over processes after assign_gradients().
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[tuple[str, Tensor]],
        *,
        dtype: torch.dtype = torch.bfloat16,
        rounding: str = "stochastic",
        seed: int = 0,
        max_waiting_bytes: int = 1 << 28,
        mean: bool = False,
    ) -> None:
        if dtype not in (torch.bfloat16, torch.float32):
            raise ValueError(f"jitstep: GradAccumulator: dtype is {dtype}. Set it to bfloat16 or float32.")
        if rounding not in ("stochastic", "nearest"):
            raise ValueError(f'jitstep: GradAccumulator: rounding is {rounding!r}. Use "stochastic" or "nearest".')
        if not isinstance(max_waiting_bytes, (int, float)) or not max_waiting_bytes >= 0:
            raise ValueError(f"jitstep: GradAccumulator: max_waiting_bytes is {max_waiting_bytes!r}. Use 0 or more.")
        if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise ValueError(f"jitstep: GradAccumulator: seed is {seed!r}. Use an integer from 0 to 2^64 - 1.")
        listed = _listed(parameters)
        self._sums = [_Sum(p, torch.float64 if p.dtype == torch.float64 else dtype) for p in listed]
        self._new_tables = lambda: _core.GradientSums(rounding == "stochastic", seed)
        self._limit, self._mean = max_waiting_bytes, mean
        self._lock = threading.RLock()
        self._tables: list[_core.GradientSums] = []  # one per addition of a backward, so that the next one reuses it
        self._backwards = self._micro_batches = 0  # since construction; in this window
        self._counts_next = self._has_added = False  # a backward has begun that is not counted; its sums have changed
        # About the outermost backward that is running:
        self._waiting: list[int] = []  # sums whose gradients are not added yet
        self._failed: list[int] = []  # sums whose gradients could not be added, for reset()
        self._bytes = self._additions = 0  # of these gradients; so far
        self._streams: dict[Any, Any] = {}  # the GPU streams that compute these gradients
        weak = weakref.ref(self)

        def on_gradient(number: int) -> None:
            if (found := weak()) is not None:
                found._on_gradient(number)

        def at_end(outermost: bool) -> None:
            if (found := weak()) is not None:
                found._end_backward()

        self._nesting = Nesting(at_end)
        self._hooks = GradHooks("a GradAccumulator", [one.p for one in self._sums], on_gradient, _INSTEAD_OF_DDP)

    # ---- during a backward

    def _on_gradient(self, number: int) -> None:
        with self._lock:
            one = self._sums[number]
            self._note_backward(one)
            if not one.waits:
                one.waits = True
                self._waiting.append(number)
            grad = one.p.grad
            one.version = 0 if grad is None else grad._version
            if grad is not None and grad.layout == torch.strided:
                self._bytes += grad.nbytes
                if grad.is_cuda:
                    stream = torch.cuda.current_stream(grad.device)
                    self._streams[grad.device, stream.cuda_stream] = stream
            if self._bytes > self._limit:
                self._add_waiting()

    def _note_backward(self, one: _Sum) -> None:
        """Each backward has its own number, because random bits depend on it. Nested ones are one micro-batch.

        One that fails counts only if its gradients are still there, so that the sums get them.
        """
        began, outermost = self._nesting.note()
        if outermost and self._counts_next and (self._has_added or self._has_left(one)):
            self._micro_batches += 1
        self._backwards += began
        self._counts_next |= outermost

    def _has_left(self, latest: _Sum) -> bool:
        """Whether a failed backward has left a gradient. That of `latest` has been added to, or is new."""
        for one in (self._sums[number] for number in self._waiting):
            grad = one.p.grad
            if grad is not None and (one is not latest or grad._version > one.version):
                return True
        return False

    def _end_backward(self) -> None:
        """Adds what waits."""
        with self._lock:
            try:
                self._add_waiting()
            finally:
                self._additions = 0
            if self._counts_next and self._has_added:
                self._micro_batches += 1
                self._counts_next = self._has_added = False

    def _add_waiting(self) -> None:
        numbers, self._waiting, self._bytes = self._waiting, [], 0
        for number in numbers:
            self._sums[number].waits = False
        try:
            self._add(numbers)
        except BaseException:
            self._failed += numbers
            raise

    def _add(self, numbers: list[int]) -> None:
        additions = []
        for number in numbers:
            one = self._sums[number]
            grad = one.p.grad
            if grad is None:
                continue
            if grad.layout != torch.strided:
                raise RuntimeError(
                    f"jitstep: GradAccumulator cannot add the sparse gradient of parameter {number} of shape "
                    f"{list(one.p.shape)}. Make it dense, as torch.nn.Embedding does with sparse=False."
                )
            values = one.values if one.started else one.begin()
            assert values is not None
            additions.append((number, values, grad.detach().resolve_conj().resolve_neg()))
        if not additions:
            return
        streams = self._wait_for_streams(additions)
        if self._additions == len(self._tables):
            self._tables.append(self._new_tables())  # type: ignore[no-untyped-call]
        _core.set_threads(torch.get_num_threads())
        self._tables[self._additions].add(additions, self._backwards)
        self._additions += 1
        for stream, current in streams:
            stream.wait_stream(current)  # a backward of another GPU does not wait for the current stream of this thread
        self._has_added = True
        for number, _, _ in additions:
            self._sums[number].started = True
            self._sums[number].p.grad = None

    def _wait_for_streams(
        self, additions: list[tuple[int, Tensor, Tensor]]
    ) -> list[tuple[torch.cuda.Stream, torch.cuda.Stream]]:
        """Gradients of parts of a model that ran on another stream are added on the current one, after that work.

        Returns these streams, each with the current one of its device.
        """
        streams, self._streams = self._streams, {}
        others = []
        for (device, handle), stream in streams.items():
            current = torch.cuda.current_stream(device)
            if current.cuda_stream == handle:
                continue
            current.wait_stream(stream)
            others.append((stream, current))
            for _, values, grad in additions:
                if grad.device == device:  # the allocator must not reuse their memory earlier
                    values.record_stream(current)
                    grad.record_stream(current)
        return others

    # ---- between backwards

    @property
    def micro_batches(self) -> int:
        """The number of micro-batches in the sums: backward() calls that reached a parameter."""
        return self._micro_batches

    @torch.no_grad()
    def assign_gradients(self) -> None:
        """Assigns the sums to the parameters' gradients, and starts new sums.

        The gradients have the sums' dtype. torch before 2.10 does not allow that: there they are converted to the
        parameter's dtype. A parameter without a gradient keeps its current one, usually none.
        """
        with self._lock:
            for number, one in enumerate(self._sums):
                if one.started and one.values is not None and one.values.shape != one.p.shape:
                    raise ValueError(
                        f"jitstep: GradAccumulator: the sum of parameter {number} has the shape "
                        f"{list(one.values.shape)}, but the parameter now has the shape {list(one.p.shape)}. Call "
                        "reset() after parameters change."
                    )
            self._nesting.forget()  # in case a backward failed
            self._end_backward()
            count, self._micro_batches = self._micro_batches, 0
            self._failed = []
            for one in self._sums:
                if not one.started or one.values is None:
                    continue
                one.started = False
                if self._mean:
                    one.values.div_(count)
                if one.dtype == one.p.dtype:
                    one.p.grad = one.values
                elif hasattr(one.p, "grad_dtype"):
                    one.p.grad_dtype = None  # any
                    one.p.grad = one.values
                else:
                    one.p.grad = one.values.to(one.p.dtype)

    def reset(self) -> None:
        """Discards the sums, and gradients that a failed backward() has left."""
        with self._lock:
            for number in (*self._waiting, *self._failed):
                self._sums[number].p.grad = None
            for one in self._sums:
                one.started = one.waits = False
            self._waiting, self._failed = [], []
            self._micro_batches = 0
            self._counts_next = self._has_added = False
            self._nesting.forget()
            self._end_backward()

    def close(self) -> None:
        """Discards the sums. Later gradients stay in the parameters."""
        self.reset()
        self._hooks.close()
        for one in self._sums:
            if one.grad_dtype is not None and (one.p.grad is None or one.p.grad.dtype == one.grad_dtype):
                one.p.grad_dtype = one.grad_dtype
