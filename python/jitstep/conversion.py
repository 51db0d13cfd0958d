"""Collects the formats that loaded state was converted from and to."""

import warnings

from . import words


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
            shown = ", ".join(f"{name} from {old} to {new}" for name, old, new in sorted(self.formats))
            text = f"jitstep converted the loaded state of {self.parameters} parameters: {shown}."
            warnings.warn(text, stacklevel=words.stacklevel())
