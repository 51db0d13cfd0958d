"""Gradients that kernels cannot read as they are: sparse, conjugated, negated, of other placements."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import sharded

if TYPE_CHECKING:
    from .groups import GroupedOptimizer

# Rules whose dense step gives the result of torch's sparse one.
_SPARSE_RULES = {"sgd", "adagrad"}


def _is_plain(gradient: Tensor) -> bool:
    lazy = gradient.is_conj() or gradient.is_neg() or torch._is_zerotensor(gradient)
    return gradient.layout == torch.strided and not lazy


def _dense(optimizer: "GroupedOptimizer", p: Tensor, gradient: Tensor) -> Tensor:
    if gradient.layout == torch.strided:
        return gradient
    if optimizer.rule not in _SPARSE_RULES:
        raise RuntimeError(f"{type(optimizer).__name__} does not support sparse gradients. Use to_dense().")
    number, g = optimizer._place(p)
    if optimizer.param_groups[g].get("eps") == 0:
        raise RuntimeError(
            f"jitstep: parameter {number} has a sparse gradient, and eps is 0: elements without a gradient would "
            "become NaN. Set eps to a positive number."
        )
    return gradient.to_dense()


@contextmanager
def readable(optimizer: "GroupedOptimizer", parameters: list[Tensor] | None = None) -> Iterator[None]:
    """Replaces gradients that kernels cannot read, until the end of the step. Default: of all parameters."""
    replaced: list[tuple[Tensor, Tensor]] = []
    try:
        for p in [p for _, _, p in optimizer._numbered()] if parameters is None else parameters:
            gradient = p.grad
            if gradient is None:
                continue
            if p.layout != torch.strided:
                shown = optimizer._shown(optimizer._place(p)[0], p)
                raise ValueError(f"jitstep: {shown} has the layout {p.layout}. Only dense parameters can be trained.")
            moved = sharded.redistributed(gradient, p)
            if moved is gradient:
                if _is_plain(gradient):
                    continue
                moved = _dense(optimizer, p, gradient)
                moved = moved.clone() if torch._is_zerotensor(moved) else moved.resolve_conj().resolve_neg()
            replaced.append((p, gradient))
            p.grad = moved
        yield
    finally:
        for p, gradient in replaced:
            p.grad = gradient
