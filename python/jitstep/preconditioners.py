"""The host transforms of Shampoo and SOAP: one matrix of statistics per dimension, and its root or its eigenbasis."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .transforms import TransformCall


def _unfolded(values: Tensor, dim: int) -> Tensor:
    """[size of dimension `dim`, all others]."""
    return values.movedim(dim, 0).reshape(values.size(dim), -1)


def _multiplied(values: Tensor, matrix: Tensor, dim: int) -> Tensor:
    """Multiplies dimension `dim` by a matrix: the new index is the matrix's column."""
    made: Tensor = torch.tensordot(values, matrix, dims=([dim], [0]))
    return made.movedim(-1, dim)


def _with_dimensions(values: Tensor) -> Tensor:
    """A scalar counts as a vector."""
    return values.reshape(1) if values.dim() == 0 else values


def _inverse_root(matrix: Tensor, order: int) -> Tensor:
    """matrix^(-1 / order), for a symmetric matrix without negative eigenvalues."""
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    root: Tensor = (u * s.pow(-1.0 / order).unsqueeze(-2)) @ vh
    return root


def _eigenbasis(matrix: Tensor) -> Tensor:
    """The eigenvectors of a symmetric matrix, that of the largest eigenvalue first."""
    vectors: Tensor = torch.linalg.eigh(matrix).eigenvectors
    return vectors.flip(1)


def _refreshed(basis: Tensor, statistics: Tensor) -> Tensor:
    """One power iteration. QR takes the columns by descending eigenvalue, but they keep their places."""
    product = statistics @ basis
    order = (basis * product).sum(0).argsort(descending=True)
    q: Tensor = torch.linalg.qr(product.index_select(1, order)).Q
    return torch.empty_like(q).index_copy_(1, order, q)


def _projected(call: "TransformCall", back: bool) -> Tensor:
    made = _with_dimensions(call.values)
    for dim in range(made.dim()):
        basis = call.matrices.get(f"q{dim}")
        if basis is not None:
            made = _multiplied(made, basis.T if back else basis, dim)
    return made.reshape(call.values.shape)


def shampoo(call: "TransformCall") -> None:
    """Preconditions a gradient by the inverse roots of its statistics, `l0` to `l3` and `root0` to `root3`."""
    gradient = made = _with_dimensions(call.values)
    for dim in range(gradient.dim()):
        if f"l{dim}" not in call.matrices:
            continue
        rows = _unfolded(gradient, dim)
        before = call.matrices[f"l{dim}"]
        statistics = before + rows @ rows.T
        if call.step == 1 or call.step % int(call.group["precondition_frequency"]) == 0:
            call.matrices[f"root{dim}"] = _inverse_root(statistics, 2 * gradient.dim())  # raises unless all are finite
        else:  # a gradient that overflows must not make all later roots impossible
            statistics = torch.where(statistics.isfinite().all(), statistics, before)
        call.matrices[f"l{dim}"] = statistics
        made = _multiplied(made, call.matrices[f"root{dim}"], dim)
    call.values.copy_(made.reshape(call.values.shape))


def _check_finite(statistics: Tensor) -> None:
    """Raises before a decomposition whose eigenbasis would be NaN, also in all later steps."""
    if not statistics.isfinite().all():
        raise RuntimeError(
            "jitstep: the statistics of soap are not finite. Check the gradient for infinities, NaN and values that "
            "overflow when squared."
        )


def soap_gradient(call: "TransformCall") -> None:
    """Projects the gradient into the eigenbases `q0` to `q3`, and adds it to the statistics `gg0` to `gg3`.

    Step 1 only computes the first eigenbases.
    """
    gradient = _with_dimensions(call.values).clone()
    beta = call.group["shampoo_beta"]
    fresh = 1 - float(call.group["betas"][1] if beta is None else beta)
    taken = call.step - 1
    refreshes = taken % int(call.group["precondition_frequency"]) == 0  # soap_update() needs the eigenvectors
    if taken > 0:
        call.values.copy_(_projected(call, False))
    for dim in range(gradient.dim()):
        if f"gg{dim}" not in call.matrices:
            continue
        rows = _unfolded(gradient, dim)
        before = call.matrices[f"gg{dim}"]
        statistics = before.lerp(rows @ rows.T, fresh)
        if refreshes:
            _check_finite(statistics)
        else:  # as in shampoo()
            statistics = torch.where(statistics.isfinite().all(), statistics, before)
        call.matrices[f"gg{dim}"] = statistics
        if taken == 0:
            call.matrices[f"q{dim}"] = _eigenbasis(statistics)


def soap_momentum(call: "TransformCall") -> None:
    """Projects the momentum into the eigenbases."""
    call.values.copy_(_projected(call, False))


def soap_update(call: "TransformCall") -> None:
    """Projects the update back, and computes the eigenbases of the next steps."""
    call.values.copy_(_projected(call, True))
    taken = call.step - 1
    if taken == 0 or taken % int(call.group["precondition_frequency"]):
        return
    for dim in range(max(call.values.dim(), 1)):
        if f"gg{dim}" in call.matrices:
            call.matrices[f"q{dim}"] = _refreshed(call.matrices[f"q{dim}"], call.matrices[f"gg{dim}"])
