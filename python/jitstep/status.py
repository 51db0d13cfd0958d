"""What the methods of an optimizer change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backward import BackwardSteps
    from .inspect import Tuning
    from .rollback import Rollback


@dataclass
class Status:
    """One object per optimizer, which is never replaced.

    Wrappers of optimizers, such as Lightning's, pass reads of attributes on to the optimizer, but keep what methods
    assign to attributes. `owner` is a weak reference to the optimizer itself.
    """

    owner: Callable[[], Any]
    mode: str = "train"
    backward: "BackwardSteps | None" = None
    tuning: "Tuning | None" = None
    tunes: bool | None = None  # what tune() got; None: the environment decides
    save_values: bool = False
    rollback: "Rollback | None" = None  # of the call that is running
