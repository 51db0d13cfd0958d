"""The stub is up to date, and type checkers accept and refuse what they should."""

import ast
import enum
import os
import pathlib
import subprocess
import sys

import pytest

import jitstep
from jitstep import _core

PYTHON = pathlib.Path(__file__).resolve().parents[1]

PROGRAM = """
import jitstep, torch
p = [torch.nn.Parameter(torch.ones(3))]
good = jitstep.AdamW(p, 1e-3, (0.9, 0.99), state={"exp_avg": "bf16"}, max_grad_norm=1.0, amsgrad=True)
made: jitstep.Optimizer = jitstep.from_spec(p, '{"rule": "adamw"}')
bytes_of_state: int = good.memory_report().bytes_of("state")
jitstep.AdamW(p, momentum=0.9)
jitstep.AdamW(p, state=8)
"""


def environment():
    return dict(os.environ, PYTHONPATH=str(pathlib.Path(jitstep.__file__).parents[1]))


def test_the_stub_is_up_to_date():
    run = subprocess.run(
        [sys.executable, str(PYTHON / "tools/make_stub.py"), "--check"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.long
def test_a_type_checker_knows_the_arguments(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(tmp_path / "program.py")],
        env=dict(environment(), MYPYPATH=str(PYTHON)),
        capture_output=True,
        text=True,
    )
    errors = [line for line in run.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2, run.stdout + run.stderr
    assert 'Unexpected keyword argument "momentum"' in errors[0]
    assert 'Argument "state"' in errors[1]


def test_the_stub_of_the_native_module_names_everything_in_it():
    names = {name for name in dir(_core) if not name.startswith("_")}
    tree = ast.parse((PYTHON / "jitstep/_core.pyi").read_text())
    declared = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert names == declared
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(_core, node.name), (Exception, enum.Enum)):
            members = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__init__"}
            assert {m for m in vars(getattr(_core, node.name)) if not m.startswith("_")} == members, node.name
