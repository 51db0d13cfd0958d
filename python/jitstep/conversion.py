"""Collects what becomes of state that is bound to kernels: formats that it was converted from and to, and values that
have no effect."""

import warnings

from . import errors


class Conversion:
    """What bind() has decoded, encoded and ignored, for one warning for all parameters."""

    def __init__(self) -> None:
        self.formats: set[tuple[str, str, str]] = set()
        self.parameters = 0
        self.unused: set[str] = set()  # names of state

    def add(self, name: str, old: str, new: str) -> None:
        self.formats.add((name, old, new))

    def add_unused(self, name: str) -> None:
        """Values at step 0 that differ from those of new state."""
        self.unused.add(name)

    def include(self, other: "Conversion") -> None:
        """Adds the conversions of one parameter."""
        self.formats |= other.formats
        self.unused |= other.unused
        self.parameters += bool(other.formats)

    def warn(self) -> None:
        if self.unused:
            text = (
                f"jitstep: the values of {', '.join(sorted(self.unused))} have no effect, because their `step` is 0: "
                "the next step starts from new state. Set `step` to 1 or more to continue from the values."
            )
            warnings.warn(text, stacklevel=errors.stacklevel())
        if self.parameters:
            shown = ", ".join(self._shown(*one) for one in sorted(self.formats))
            count = "1 parameter" if self.parameters == 1 else f"{self.parameters} parameters"
            text = f"jitstep converted the state of {count}: {shown}."
            warnings.warn(text, stacklevel=errors.stacklevel())

    @staticmethod
    def _shown(name: str, old: str, new: str) -> str:
        if old != new:
            return f"{name} from {old} to {new}"
        return f"{name}, in {new}, for another dtype or memory order"
