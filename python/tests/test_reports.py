"""Modes, kernels, memory, and the command-line tool."""

import copy
import subprocess
import sys

import pytest
import torch
from training import make, same, train

import jitstep
from jitstep import _core
from jitstep.__main__ import tool


def test_evaluation_moves_the_parameters_and_training_moves_them_back():
    net = make()
    optimizer = jitstep.ScheduleFreeAdamW(net.parameters())
    train(net, optimizer, 5)
    training = copy.deepcopy(net)
    optimizer.eval()
    optimizer.eval()
    assert not same(net, training)
    with pytest.raises(RuntimeError, match="evaluation mode"):
        optimizer.step()
    optimizer.train()
    for p, q in zip(net.parameters(), training.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_modes_of_other_optimizers_change_nothing():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    train(net, optimizer, 1)
    before = copy.deepcopy(net)
    optimizer.eval()
    assert same(net, before)
    train(net, optimizer, 1)


def test_kernels_are_known_before_the_first_step():
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=512)
    reports = optimizer.kernels()
    assert sorted(report.name for report in reports) == ["adamw_fp32_float32", "adamw_int8_float32"]
    assert sorted(n for report in reports for n in report.parameters) == [0, 1, 2, 3]
    assert not optimizer.state
    compiled = _core.compile_count()
    train(net, optimizer, 1)
    assert _core.compile_count() == compiled
    assert [r.key for r in optimizer.kernels()] == [r.key for r in reports]
    assert reports[0].key in str(reports[0])


def test_a_step_of_many_parameters_is_one_launch():
    parameters = [torch.nn.Parameter(torch.ones(n)) for n in range(1, 40)]
    optimizer = jitstep.AdamW(parameters)
    for _ in range(2):
        for p in parameters:
            p.grad = torch.ones_like(p)
        before = _core.launch_count()
        optimizer.step()
    assert _core.launch_count() == before + 1


def test_the_memory_report_counts_bytes():
    p = torch.nn.Parameter(torch.zeros(8192))
    optimizer = jitstep.AdamW([p], state="int8")
    p.grad = torch.ones(8192)
    optimizer.step()
    report = optimizer.memory_report()
    assert report.bytes_of("parameters") == 4 * 8192
    assert report.bytes_of("exp_avg.codes") == 8192
    assert report.bytes_of("total") == report.total
    assert report.bytes_of("state") == optimizer.plan_of(p).bytes + 4  # and the step
    assert report.total == report.bytes_of("state") + 8 * 8192
    assert "exp_avg_sq.scales" in str(report)


def test_the_formats_of_a_parameter_are_those_that_it_has_got():
    big, small = torch.nn.Parameter(torch.zeros(64, 128).half()), torch.nn.Parameter(torch.zeros(8))
    state = {"exp_avg": "bf16", "exp_avg_sq": {"codec": "int8", "block": 128}}
    optimizer = jitstep.AdamW([big, small], state=state, weights="split8")
    found = optimizer.formats_of(big)
    assert list(found.slots) == ["exp_avg", "exp_avg_sq"]
    assert (found.slots["exp_avg"]["codec"], found.weights) == ("bf16", "split8")
    assert (found.slots["exp_avg_sq"]["codec"], found.slots["exp_avg_sq"]["block"]) == ("int8", 128)
    found = optimizer.formats_of(small)
    assert [one["codec"] for one in found.slots.values()] == ["bf16", "fp32"]
    assert found.weights == "native"
    assert not optimizer.state
    with pytest.raises(ValueError, match="not a parameter"):
        optimizer.formats_of(torch.zeros(8))


def test_formats_are_accepted_as_the_argument_state():
    p = torch.nn.Parameter(torch.zeros(64, 128))
    found = jitstep.AdamW([p], state="int8").formats_of(p)
    assert jitstep.AdamW([p], state=found.slots).formats_of(p) == found


@pytest.mark.skipif(tool() is None, reason="the command-line tool is not built")
def test_the_module_runs_the_command_line_tool():
    run = subprocess.run([sys.executable, "-m", "jitstep", "list"], capture_output=True, text=True, env=_environment())
    assert run.returncode == 0, run.stderr
    assert "adamw" in run.stdout


def _environment():
    import os
    import pathlib

    return dict(os.environ, PYTHONPATH=str(pathlib.Path(jitstep.__file__).parents[1]))
