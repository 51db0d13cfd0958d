"""The Python environment of the libraries that bench/compare.py measures: .deps/libraries. It is separate from the
project's."""

import json
import os
import pathlib
import re
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".deps/libraries"

# pip's arguments by package. --no-deps: the package requires more than its optimizer imports (pytorch-lamb:
# torchvision), or the dependencies are already installed. --no-build-isolation: the build needs the installed torch.
PACKAGES = {
    "torch": ["torch==2.13.0", "numpy", "setuptools", "wheel", "ninja"],
    "deepspeed": ["--no-build-isolation", "deepspeed==0.19.8"],
    "torchao": ["--no-deps", "torchao==0.18.0"],
    "bitsandbytes": ["--no-deps", "bitsandbytes==0.50.2", "packaging"],
    "flashoptim": ["flashoptim==0.1.4"],
    "tensorboardX": ["tensorboardX"],
    "pytorch-lamb": ["--no-deps", "pytorch-lamb==1.0.0"],
    "torchastic": ["--no-deps", "torchastic==0.1.2"],
    "adamw-bf16": ["--no-deps", "adamw-bf16==0.0.3"],
    "adamw-bfloat16": ["--no-deps", "git+https://github.com/arogozhnikov/adamw_bfloat16@6077417"],
}


def python_of(folder):
    return folder / "bin/python"


def has_pip(python):
    """False for an environment that was not completed."""
    return python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def pip_install(python, requirements):
    """Installs packages. Returns None, or pip's error message."""
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    done = subprocess.run(
        command + requirements,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | {"GIT_TERMINAL_PROMPT": "0"},
    )
    if done.returncode == 0:
        return None
    patterns = (r"^\s*(fatal: .*)$", r"^\s*(error: .*)$")  # git's messages are more specific
    found = (re.findall(pattern, done.stderr, re.M | re.I) for pattern in patterns)
    messages = next(filter(None, found), [done.stderr.strip()[-200:]])
    return f"pip cannot install it: {messages[-1]}"


def install(folder=FOLDER, packages=PACKAGES):
    """Installs missing packages. Returns the reason for each package that pip cannot install. Later calls try these
    again."""
    record = folder / "installed.json"
    known = json.loads(record.read_text()) if record.exists() else {}
    if not has_pip(python_of(folder)):
        venv.create(folder, with_pip=True, clear=True)
        known = {}
    for package, requirements in packages.items():
        if known.get(package) == {"asked": requirements, "reason": None}:
            continue
        print(f"installing {package} in {folder}", file=sys.stderr, flush=True)
        known[package] = {"asked": requirements, "reason": pip_install(python_of(folder), requirements)}
        record.write_text(json.dumps(known, indent=2) + "\n")
    return {package: known[package]["reason"] for package in packages if known[package]["reason"]}


def missing(python):
    """The reason for each package that an existing environment does not have."""
    script = "import importlib.metadata, json; print(json.dumps([d.name for d in importlib.metadata.distributions()]))"
    listed = subprocess.run([str(python), "-c", script], check=True, stdout=subprocess.PIPE, text=True).stdout
    installed = {name.lower().replace("_", "-") for name in json.loads(listed)}
    return {package: f"{package} is not installed" for package in PACKAGES if package.lower() not in installed}


def variables(threads, folder=FOLDER, build=ROOT / "build"):
    """The environment variables of every process: the same number of threads, folders for compiled code in
    .deps/libraries, and jitstep's Python classes of a build."""
    count = str(threads)
    return os.environ | {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",  # for ninja
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "DS_ACCELERATOR": "cpu",
        "PYTHONPATH": str(build / "python"),
    }
