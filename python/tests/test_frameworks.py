"""Frameworks with their real packages, by the programs in examples/python.

`tools/setup.sh --frameworks` installs them.
"""

import importlib
import os
import pathlib
import subprocess
import sys

import distributed as programs_of_processes
import pytest
import torch
from test_reports import _environment
from training import assert_close, same

import jitstep

pytestmark = pytest.mark.long
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/python"))


def distributed(name, folder, file="distributed.py"):
    """Runs a part of a file, which starts its processes itself."""
    program = pathlib.Path(__file__).with_name(file)
    environment = dict(_environment(), OMP_NUM_THREADS="1")
    run = subprocess.run([sys.executable, program, name, folder], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


PROGRAMS = [
    "ddp",
    "ordered_hook",
    "ordered_hook_of_three",
    "zero",
    "fsdp2_follows_torch",
    "fsdp2_resumes",
    "fsdp2_reshards",
    "fsdp2_changes_the_format",
    "fsdp2_refuses",
    "fsdp2_gives_shards_the_sizes_of_their_parameter",
    "fsdp2_counts_on_ranks_without_elements",
    "fsdp2_saves_the_formats_of_ranks_without_elements",
    "fsdp2_saves_without_buffers_that_are_off",
    "gradients_of_other_placements",
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_processes_train_together(name, tmp_path):
    distributed(name, str(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "ddp_refuses_what_reads_gradients_early",
        "fsdp2_steps_in_backward",
        "fsdp2_exchanges_values_with_whole_parameters",
    ],
)
def test_gradients_and_state_are_those_of_all_processes(name, tmp_path):
    distributed(name, str(tmp_path), "distributed_hooks.py")


def require(package):
    """Skips the test if the package is not installed. With JITSTEP_FRAMEWORKS=1 it fails."""
    if os.environ.get("JITSTEP_FRAMEWORKS") == "1":
        importlib.import_module(package)
    else:
        pytest.importorskip(package)


def test_the_trainer_of_hugging_face_follows_torch_and_resumes(tmp_path):
    require("transformers")
    from train_hf_trainer import main

    theirs, ours = main(torch.optim.AdamW, str(tmp_path / "a")), main(jitstep.AdamW, str(tmp_path / "b"))
    assert isinstance(getattr(ours.optimizer, "optimizer", ours.optimizer), jitstep.AdamW)
    assert_close(theirs.model, ours.model, rtol=1e-4, atol=1e-5)
    formats = {"state": "int8", "min_quantized_size": 0}
    whole = main(jitstep.AdamW, str(tmp_path / "c"), **formats)
    resumed = main(jitstep.AdamW, str(tmp_path / "d"), resume=str(tmp_path / "c/checkpoint-2"), **formats)
    assert same(whole.model, resumed.model)


def test_accelerate_follows_torch(tmp_path):
    require("accelerate")
    from train_accelerate import main

    assert_close(main(torch.optim.AdamW, str(tmp_path / "a")), main(jitstep.AdamW, str(tmp_path / "b")))
    main(state="int8", min_quantized_size=0, folder=str(tmp_path / "c"))


def test_lightning_follows_torch_and_resumes(tmp_path):
    require("lightning")
    from train_lightning import main

    assert_close(main(torch.optim.AdamW), main(jitstep.AdamW))
    formats = {"state": "int8", "min_quantized_size": 0}
    whole = main(**formats)
    main(steps=3, save=str(tmp_path / "a.ckpt"), **formats)
    assert same(whole, main(resume=str(tmp_path / "a.ckpt"), **formats))


def test_every_example_is_run_by_a_test():
    programs = [getattr(programs_of_processes, name) for name in PROGRAMS]
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    used = {name for function in (*programs, *tests) for name in function.__code__.co_names}
    found = {path.stem for path in (ROOT / "examples/python").glob("*.py")}
    assert found
    assert found <= used
    assert all(len((ROOT / f"examples/python/{name}.py").read_text().splitlines()) < 50 for name in found)
