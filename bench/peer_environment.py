"""The Python environment of the benchmark's peers, .deps/peers, apart from the project's own: what is in it and how it is made."""
import json
import os
import pathlib
import re
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".deps/peers"

# By package: what pip is given. Without dependencies where a package asks for more than its optimizer imports
# (pytorch-lamb: torchvision), or where they are there already; what builds itself finds torch here.
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


def pip_install(python, requirements):
    """None, or why it did not work: pip's last words of it."""
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    done = subprocess.run(
        command + requirements, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=os.environ | {"GIT_TERMINAL_PROMPT": "0"},
    )
    if done.returncode == 0:
        return None
    words = (r"^\s*(fatal: .*)$", r"^\s*(error: .*)$")  # git's are more to the point
    said = next(filter(None, (re.findall(word, done.stderr, re.M | re.I) for word in words)), [done.stderr.strip()[-200:]])
    return f"pip cannot install it: {said[-1]}"


def install(folder=FOLDER, packages=PACKAGES):
    """Installs what is missing; gives the reason for each package that could not be. Others are not asked for again."""
    record = folder / "installed.json"
    known = json.loads(record.read_text()) if record.exists() else {}
    if not python_of(folder).exists():
        venv.create(folder, with_pip=True, clear=True)
        known = {}
    for package, requirements in packages.items():
        if known.get(package) == {"asked": requirements, "reason": None}:
            continue
        print(f"installing {package} into {folder}", file=sys.stderr, flush=True)
        known[package] = {"asked": requirements, "reason": pip_install(python_of(folder), requirements)}
        record.write_text(json.dumps(known, indent=2) + "\n")
    return {package: known[package]["reason"] for package in packages if known[package]["reason"]}


def missing(python):
    """The reason for each package that an environment made by somebody else lacks."""
    ask = "import importlib.metadata, json; print(json.dumps([d.name for d in importlib.metadata.distributions()]))"
    said = subprocess.run([str(python), "-c", ask], check=True, stdout=subprocess.PIPE, text=True).stdout
    there = {name.lower().replace("_", "-") for name in json.loads(said)}
    return {package: f"{package} is not installed" for package in PACKAGES if package.lower() not in there}


def variables(threads, folder=FOLDER):
    """The environment of every contender's process: as many threads for everybody, built code beside the packages."""
    count = str(threads)
    return os.environ | {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",  # ninja, for what is compiled
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "DS_ACCELERATOR": "cpu",
    }
