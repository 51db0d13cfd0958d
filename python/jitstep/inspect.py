"""Reports: the kernels that an optimizer uses, and the memory of its parameters, gradients and state."""

import html
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from . import _core, gradients, progress, sharded, supported, tables

if TYPE_CHECKING:
    from .optimizer import Optimizer


@dataclass(frozen=True)
class KernelReport:
    """A kernel that the optimizer's steps launch."""

    name: str
    target: str
    key: str  # names the kernel in the cache
    from_cache: bool
    compile_ms: float
    config: str  # launch configuration
    reason: str  # why it was chosen
    parameters: list[int] = field(default_factory=list)  # numbers in the optimizer

    @property
    def origin(self) -> str:
        """The cache, or the time of the compilation."""
        return "cache" if self.from_cache else f"{self.compile_ms:.0f} ms"

    def __str__(self) -> str:
        made = "found in the cache" if self.from_cache else f"compiled in {self.compile_ms:.0f} ms"
        shown = f"{self.name} for {self.target}: {made}, {len(self.parameters)} parameters"
        return f"{shown}\n  config {self.config}: {self.reason}\n  key {self.key}"


class KernelReports(list[KernelReport]):
    """Reports of all kernels of an optimizer."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        rows = [(one.name, one.target, one.origin, len(one.parameters), one.config, one.reason) for one in self]
        return _table(("kernel", "target", "compiled", "parameters", "config", "reason"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for notebooks. Numbers are at the right."""

    def cell(value: Any, tag: str) -> str:
        align = "left" if isinstance(value, str) else "right"
        shown = html.escape(value if isinstance(value, str) else f"{value:,}")
        return f'<{tag} style="text-align: {align}">{shown}</{tag}>'

    lines = ["".join(cell(value, "th") for value in head)] + ["".join(cell(v, "td") for v in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


@dataclass(frozen=True)
class ParameterFormats:
    """The formats of one parameter."""

    slots: dict[str, dict[str, Any]]
    """By state buffer, such as "exp_avg": the format and its options, as the argument `state` accepts. Buffers that the
    options disable are absent. "fp32" means the dtype of the arithmetic: float64 for a float64 parameter."""
    weights: str
    """The weight format, or "native": none."""

    @classmethod
    def of(cls, plan: _core.ParamPlan) -> "ParameterFormats":
        return cls({slot.name: _codec(slot.format) for slot in plan.slots() if slot.format}, plan.weights)


def _codec(text: str) -> dict[str, Any]:
    """A format as a dict, whose whole numbers are integers."""
    options: dict[str, Any] = json.loads(text) if text.startswith("{") else {"codec": text}
    return {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in options.items()}


@dataclass(frozen=True)
class MemoryEntry:
    """The tensors of one kind: parameters, gradients, or one entry of the state, such as exp_avg.codes."""

    name: str
    dtype: str
    tensors: int
    bytes: int


@dataclass(frozen=True)
class MemoryReport:
    """Bytes by kind. Tensors that share a storage count it once."""

    entries: list[MemoryEntry]
    elements: int  # of all parameters

    def bytes_of(self, name: str) -> int:
        """The bytes of the entries of this name, or 0. "state": all but parameters and gradients. "total": all."""
        if name == "total":
            return self.total
        if name == "state":
            return sum(e.bytes for e in self.entries if e.name not in ("parameters", "gradients"))
        return sum(e.bytes for e in self.entries if e.name == name)

    @property
    def total(self) -> int:
        return sum(e.bytes for e in self.entries)

    def __str__(self) -> str:
        rows = [(e.name, e.dtype, str(e.tensors), f"{e.bytes:,}", self._share(e.bytes)) for e in self.entries]
        rows.append(("total", "", "", f"{self.total:,}", self._share(self.total)))
        head = ("", "dtype", "tensors", "bytes", "bytes per parameter")
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in [head, *rows]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        rows = [(e.name, e.dtype, e.tensors, e.bytes, self._share(e.bytes)) for e in self.entries]
        rows.append(("total", "", sum(e.tensors for e in self.entries), self.total, self._share(self.total)))
        return _table(("", "dtype", "tensors", "bytes", "bytes per parameter"), rows)

    def _share(self, size: int) -> str:
        return f"{size / self.elements:.3f}" if self.elements else ""


def _report(info: _core.KernelInfo) -> KernelReport:
    return KernelReport(
        info.name, info.target, info.key, info.from_cache, info.compile_ms, info.config, info.reason,
        list(info.parameters),
    )  # fmt: skip


def preview(optimizer: "Optimizer", show: bool | None = None) -> _core.Stepper:
    """See Optimizer.compile."""
    _core.set_threads(torch.get_num_threads())  # of the tuning records
    stepper = _core.Stepper()
    groups = optimizer._other_groups()
    stepper.begin(groups, groups)
    names = set()
    with gradients.readable(optimizer):
        for number, g, p in optimizer._numbered():
            if supported.never_trains(p) or (p.grad is None and not p.requires_grad):
                stepper.add_inactive(p)
                continue
            supported.check_device(number, p, False)
            plan = optimizer._plan(groups[g], p, number)
            names.add(plan.name)
            buffers = _core.Buffers(sharded.local(p), [], [], None)
            tables.add(optimizer, stepper, number, p, plan, buffers, group=g, entries={})
    with progress.polled(len(names), "jitstep compiles", "kernels", _core.compile_count, show):
        stepper.finish({}, False)
    return stepper


class Tuning:
    """An optimizer's tuning, and its progress bar."""

    def __init__(self, agree: Any, show: bool | None) -> None:
        self.agree, self._show = agree, show
        self._bar: Any = None

    def show(self, tried: int, candidates: int) -> None:
        if self._bar is None:
            if candidates == 0 or tried == candidates or self._show is False:
                return
            self._bar = progress.bar(candidates, "jitstep tunes", "configurations", self._show)
            if self._bar is None:
                self._show = False
                return
        self._bar.total = candidates
        self._bar.update(tried - self._bar.n)
        if tried == candidates:
            self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar, self._show = None, False


def kernels(optimizer: "Optimizer") -> KernelReports:
    """See Optimizer.kernels."""
    found = optimizer._stepper.kernels()
    if not found and optimizer._status.backward is not None:
        found = optimizer._status.backward.kernels()
    reports: dict[str, KernelReport] = {}
    for info in found or preview(optimizer).kernels():
        report = reports.setdefault(info.key, _report(info))
        report.parameters.extend(number for number in info.parameters if number not in report.parameters)
    return KernelReports(reports.values())


class _Measure:
    """Counts each storage once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(self, name: str, tensor: Any) -> None:
        if not isinstance(tensor, torch.Tensor):
            return
        tensor = sharded.local(tensor)
        counted = self.found[name, str(tensor.dtype).removeprefix("torch.")]
        counted[0] += 1
        parts = (tensor._indices(), tensor._values()) if tensor.layout == torch.sparse_coo else (tensor,)
        counted[1] += sum(self._new_bytes(part) for part in parts)

    def _new_bytes(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage._cdata in self.seen:
            return 0
        self.seen.add(storage._cdata)
        return storage.nbytes()

    def entries(self) -> list[MemoryEntry]:
        return [MemoryEntry(name, dtype, *counted) for (name, dtype), counted in self.found.items()]


def memory_report(optimizer: "Optimizer") -> MemoryReport:
    """See Optimizer.memory_report."""
    measure = _Measure()
    parameters = [p for _, _, p in optimizer._numbered()]
    for p in parameters:
        measure.add("parameters", p.detach())
    for p in parameters:
        measure.add("gradients", p.grad)
    for p in parameters:
        for name, value in optimizer.state.get(p, {}).items():
            measure.add(name, value)
    return MemoryReport(measure.entries(), sum(p.numel() for p in parameters))
