"""The wheels of tools/wheels.sh, in bare virtual environments: no compiler, no PATH, no CMake."""

import glob
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import torch

pytestmark = pytest.mark.long
ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = """
import sys, torch
torch.set_num_threads(1)
import jitstep
from jitstep import _core
assert "site-packages" in jitstep.__file__
states = []
for name in ("AdamW", "Adam", "SGD", "Lion", "LAMB"):
    for state in (None, "bf16", "int8", "int4"):
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 8)).to(dtype)
            options = {"momentum": 0.9} if name == "SGD" else {}
            optimizer = getattr(jitstep, name)(net.parameters(), lr=1e-3, state=state, **options)
            for step in range(3):
                optimizer.zero_grad()
                net(torch.randn(16, 64).to(dtype)).pow(2).mean().backward()
                optimizer.step()
            states += [p.detach() for p in net.parameters()]
torch.save([states, _core.compile_count()], sys.argv[1])
"""


def wheels(out):
    run = subprocess.run([ROOT / "tools/wheels.sh", "--out", out], capture_output=True, text=True)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    return sorted(glob.glob(f"{out}/*.whl"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheels for all Pythons of this machine. Those in the folder JITSTEP_WHEELS, if it is set."""
    folder = os.environ.get("JITSTEP_WHEELS")
    found = sorted(glob.glob(f"{folder}/*.whl")) if folder else wheels(tmp_path_factory.mktemp("wheels"))
    assert found, "there is no wheel"
    return found


def environment(folder, wheel):
    """A virtual environment of this Python with the wheel. torch and numpy come from this environment."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin/python")
    subprocess.run(
        [python, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--no-index", wheel], check=True
    )
    packages = pathlib.Path(torch.__file__).parents[1]
    pathlib.Path(glob.glob(f"{folder}/lib/python3*/site-packages")[0], "torch.pth").write_text(f"{packages}\n")
    return python


def stepped(python, folder, name, **variables):
    """The parameters after the steps, and the number of kernels that were compiled."""
    held = {"PATH": "", "JITSTEP_CACHE_DIR": str(folder / f"cache-{name}"), "HOME": str(folder), **variables}
    run = subprocess.run([python, "-c", STEPS, folder / f"{name}.pt"], env=held, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return torch.load(folder / f"{name}.pt", weights_only=False)


def of_this_python(wheels):
    tag = f"cp3{sys.version_info.minor}" if sys.version_info < (3, 12) else "cp312-abi3"
    return next(wheel for wheel in wheels if tag in wheel)


def test_a_wheel_has_one_tag_and_no_sources(built):
    for wheel in built:
        assert wheel.endswith("manylinux_2_28_x86_64.whl")
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith(".jsk") for name in names)
        assert not any(name.endswith((".cpp", ".h")) for name in names)


def test_the_kernels_of_the_wheel_need_no_compiler_and_give_the_same_bits(built, tmp_path):
    python = environment(tmp_path / "venv", of_this_python(built))
    kernels = glob.glob(f"{tmp_path}/venv/lib/python3*/site-packages/jitstep/kernels")[0]
    os.chmod(kernels, 0o775)  # as pip with the umask 002
    packaged, compiled = stepped(python, tmp_path, "packaged")
    assert compiled == 0
    native, compiled = stepped(python, tmp_path, "native", PATH="/usr/bin:/bin", JITSTEP_CPU="native")
    assert compiled > 0
    assert all(torch.equal(a, b) for a, b in zip(packaged, native, strict=True))
    os.chmod(kernels, 0o755)
    held = {"PATH": "", "HOME": str(tmp_path)}
    tool = subprocess.run([python, "-m", "jitstep", "cache", "list"], env=held, capture_output=True, text=True)
    assert "adamw_int8_float32" in tool.stdout, tool.stderr


def test_zig_of_pip_compiles_the_same_bits(built, tmp_path):
    python = environment(tmp_path / "venv", of_this_python(built))
    subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", "-q", "ziglang"], check=True)
    native, _ = stepped(python, tmp_path, "native", PATH="/usr/bin:/bin", JITSTEP_CPU="native")
    by_zig, compiled = stepped(python, tmp_path, "zig", JITSTEP_CPU="native")
    assert compiled > 0
    assert all(torch.equal(a, b) for a, b in zip(by_zig, native, strict=True))
