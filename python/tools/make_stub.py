"""Writes jitstep/__init__.pyi, which gives editors and type checkers the arguments of every class.

    python make_stub.py          writes the file
    python make_stub.py --check  fails if the file is not up to date

The arguments come from the catalog of the built package, which must be importable.
"""

import pathlib
import sys
from inspect import Parameter, signature

import jitstep
from jitstep import _core, catalog

STUB = pathlib.Path(__file__).resolve().parents[1] / "jitstep/__init__.pyi"
HEADER = """# Written by make_stub.py from the catalog of optimizers.
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from torch import Tensor
from torch.optim import lr_scheduler as lr_scheduler
from torch.optim import swa_utils as swa_utils
from torch.optim.optimizer import ParamsT

from . import _core as _core
from ._core import CompileError as CompileError
from ._core import CudaError as CudaError
from ._core import Error as Error
from ._core import MissingCompilerError as MissingCompilerError
from .accumulate import GradAccumulator as GradAccumulator
from .archive_writer import write_archive as write_archive
from .archives import read_archive as read_archive
from .catalog import from_spec as from_spec
from .catalog import load_codec as load_codec
from .catalog import load_rule as load_rule
from .distributed import ordered_all_reduce_hook as ordered_all_reduce_hook
from .optimizer import Optimizer as Optimizer
from .transforms import TransformCall as TransformCall
from .transforms import register_host_transform as register_host_transform
from .transforms import register_parameter_transform as register_parameter_transform

__version__: str
_Number: TypeAlias = float | Tensor
_Numbers: TypeAlias = Sequence[float | None] | tuple[_Number, ...]
_Codec: TypeAlias = str | dict[str, Any]
_State: TypeAlias = _Codec | dict[str, _Codec]

def rules() -> list[str]: ...
def codecs() -> list[str]: ...
def weight_formats() -> list[str]: ...
"""
TYPES = {
    "number": "_Number",
    "nullable": "_Number | None",
    "numbers": "_Numbers",
    "list": "Sequence[float]",
    "boolean": "bool",
}
OTHERS = {
    "params": "ParamsT",
    "decoupled_weight_decay": "bool",
    "state": "_State | None",
    "weights": "str | None",
    "seed": "int | None",
    "min_quantized_size": "int | None",
    "foreach": "bool | None",
    "capturable": "bool",
    "differentiable": "bool",
    "fused": "bool | None",
}


def type_of(name: str, options: dict) -> str:
    option = options.get(name)
    if option is None:
        return OTHERS[name]
    if option["type"] == "choice":
        return f"Literal[{', '.join(repr(choice) for choice in option['choices'])}] | None"
    return TYPES[option["type"]]


def argument(parameter: Parameter, options: dict) -> str:
    shown = f"{parameter.name}: {type_of(parameter.name, options)}"
    return shown if parameter.default is Parameter.empty else f"{shown} = {parameter.default!r}"


def class_lines(rule: str) -> list[str]:
    description = _core.describe(rule)
    options = {option["name"]: option for option in description["options"]}
    name = catalog.class_name(description["name"], description["class"])
    lines, keywords = [f"class {name}(Optimizer):", "    def __init__(", "        self,"], False
    for parameter in list(signature(getattr(jitstep, name)).parameters.values()):
        if parameter.kind is Parameter.KEYWORD_ONLY and not keywords:
            lines.append("        *,")
            keywords = True
        lines.append(f"        {argument(parameter, options)},")
    return [*lines, "    ) -> None: ...", ""]


def stub() -> str:
    shipped = [rule for rule in _core.rules() if _core.describe(rule)["source"].startswith("rules/")]
    return "\n".join([HEADER, *(line for rule in shipped for line in class_lines(rule))])


if __name__ == "__main__":
    text = stub()
    if "--check" in sys.argv:
        sys.exit(STUB.read_text() != text and f"{STUB} is not up to date. Run make_stub.py.")
    STUB.write_text(text)
