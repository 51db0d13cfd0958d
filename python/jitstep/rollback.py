"""What an error of a step takes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from .groups import GroupedOptimizer


class Rollback:
    """The state of parameters before a step, and the values of those that a new weight format has rewritten."""

    def __init__(self, optimizer: "GroupedOptimizer", parameters: list[Tensor]) -> None:
        self._optimizer, self._parameters = optimizer, parameters
        self._entries = {p: dict(entries) for p in parameters if (entries := optimizer.state.get(p))}
        self._pairs = {p: dict(pairs) for p in parameters if (pairs := optimizer._pairs.get(p))}
        self._bound = {p: bound for p in parameters if (bound := optimizer._bound.get(p))}
        self._values: list[tuple[Tensor, Tensor]] = []

    def keep_values(self, local: Tensor) -> None:
        """Call it before a parameter, or its part in this process, is rewritten."""
        self._values.append((local.detach(), local.detach().clone()))

    def restore(self) -> None:
        """Parameters that had no state have none again. The dicts of the others stay the same objects."""
        for p in self._parameters:
            if p not in self._entries:
                self._optimizer._forget_state(p)
                continue
            entries = self._optimizer.state[p]
            entries.clear()
            entries.update(self._entries[p])
            self._optimizer._pairs[p] = self._pairs.get(p, {})
            self._optimizer._bound.pop(p, None)
            if p in self._bound:
                self._optimizer._bound[p] = self._bound[p]
        for local, values in reversed(self._values):
            local.copy_(values)


@contextmanager
def restored_on_error(optimizer: "GroupedOptimizer", parameters: list[Tensor]) -> Iterator[None]:
    """An error inside leaves state and parameters as they were before."""
    status = optimizer._status
    outer, own = status.rollback, Rollback(optimizer, parameters)
    status.rollback = own
    try:
        yield
    except BaseException:
        optimizer._stepper.drop()
        own.restore()
        raise
    finally:
        status.rollback = outer
