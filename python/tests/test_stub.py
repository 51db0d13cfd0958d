"""The stub is up to date, type checkers accept and refuse what they should, and the sources have no findings."""

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
ROOT = PYTHON.parent

PROGRAM = """
import jitstep, torch
p = [torch.nn.Parameter(torch.ones(3))]
good = jitstep.AdamW(p, 1e-3, (0.9, 0.99), state={"exp_avg": "bf16"}, max_grad_norm=1.0, amsgrad=True)
made: jitstep.Optimizer = jitstep.from_spec(p, '{"rule": "adamw"}')
bytes_of_state: int = good.memory_report().bytes_of("state")
jitstep.AdamW(p, momentum=0.9)
jitstep.AdamW(p, state=8)
"""


def run(*command, **variables):
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(jitstep.__file__).parents[1]), **variables)
    return subprocess.run(list(map(str, command)), env=environment, cwd=ROOT, capture_output=True, text=True)


def test_the_stub_is_up_to_date():
    done = run(sys.executable, PYTHON / "tools/make_stub.py", "--check")
    assert done.returncode == 0, done.stderr


def test_the_sources_have_no_findings():
    pytest.importorskip("ruff")
    folders = ["bench", "examples", "python", "tests", "tools"]
    for action in (["check"], ["format", "--check"]):
        done = run(sys.executable, "-m", "ruff", *action, "--no-cache", *folders)
        assert done.returncode == 0, done.stdout


def mypy(tmp_path, file):
    pytest.importorskip("mypy")
    done = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", file, MYPYPATH=str(PYTHON))
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert done.returncode == bool(errors), done.stderr
    assert ("Found" if errors else "Success") in done.stdout, done.stderr  # otherwise mypy itself has failed
    return errors


@pytest.mark.long
def test_the_types_of_the_package_are_complete_and_right(tmp_path):
    assert mypy(tmp_path, PYTHON / "jitstep") == []


def check_findings(errors):
    assert len(errors) == 2, errors
    assert '"momentum"' in errors[0]
    assert '"state"' in errors[1]


@pytest.mark.long
def test_mypy_knows_the_arguments(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    check_findings(mypy(tmp_path, tmp_path / "program.py"))


@pytest.mark.long
def test_pyright_knows_the_arguments(tmp_path):
    """PyPI's pyright fetches its program from npm when it first runs."""
    pytest.importorskip("pyright")
    if run(sys.executable, "-m", "pyright", "--version").returncode != 0:
        pytest.skip("pyright cannot fetch its program")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, tmp_path / "program.py")
    check_findings([line for line in done.stdout.splitlines() if "error:" in line])


def test_the_stub_of_the_native_module_names_everything_in_it():
    names = {name for name in dir(_core) if not name.startswith("_")}
    tree = ast.parse((PYTHON / "jitstep/_core.pyi").read_text())
    declared = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert names == declared
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(_core, node.name), (Exception, enum.Enum)):
            members = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__init__"}
            assert {m for m in vars(getattr(_core, node.name)) if not m.startswith("_")} == members, node.name
