"""Collects the formats that state was converted from and to: loaded state, and that of a changed parameter."""

import warnings

from . import errors


class Conversion:
    """What bind() has decoded and encoded, for one warning for all parameters."""

    def __init__(self) -> None:
        self.formats: set[tuple[str, str, str]] = set()
        self.parameters = 0

    def add(self, name: str, old: str, new: str) -> None:
        self.formats.add((name, old, new))

    def include(self, other: "Conversion") -> None:
        """Adds the conversions of one parameter."""
        self.formats |= other.formats
        self.parameters += bool(other.formats)

    def warn(self) -> None:
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
