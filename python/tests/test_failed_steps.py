"""What a step that fails leaves behind: state, parameters and shared state as before it."""

import copy
import warnings

import pytest
import torch
from training import parameter

import jitstep


def steps(optimizer, *parameters, count=1):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()


def same(one, other):
    """Whether two states have the same entries."""
    assert one.keys() == other.keys()
    return all(
        torch.equal(value, other[key]) if isinstance(value, torch.Tensor) else value == other[key]
        for key, value in one.items()
    )


@pytest.mark.parametrize("state", ["int4", "bf16", "fp32"])
def test_a_conversion_of_state_is_undone(state):
    p, q = parameter(64), parameter(64)
    optimizer = jitstep.AdamW([p, q], lr=0.1, min_quantized_size=0, state="int8")
    steps(optimizer, p, q, count=3)
    before = copy.deepcopy(optimizer.state[p])
    optimizer.param_groups[0]["state"] = state
    q.data = q.data[:32].clone()
    with pytest.raises(ValueError, match="parameter 1"):
        steps(optimizer, p, q)
    assert same(optimizer.state[p], before)
    del optimizer.state[q]
    with pytest.warns(UserWarning, match="converted"):
        steps(optimizer, p, q)
    assert optimizer.state[p]["step"] == 4


def test_a_conversion_of_weights_is_undone():
    p, q = parameter(64, dtype=torch.bfloat16), parameter(64, dtype=torch.bfloat16)
    optimizer = jitstep.AdamW([p, q], lr=0.1, weights="split8")
    steps(optimizer, p, q, count=3)
    weights, before, values = optimizer.fp32_weights(), copy.deepcopy(optimizer.state[p]), p.detach().clone()
    optimizer.param_groups[0]["weights"] = "split16"
    q.data = q.data[:32].clone()
    with pytest.raises(ValueError, match="parameter 1"):
        steps(optimizer, p, q)
    assert torch.equal(p, values)
    assert same(optimizer.state[p], before)
    optimizer.param_groups[0]["weights"] = "split8"
    q.data = torch.ones(64, dtype=torch.bfloat16)
    assert torch.equal(optimizer.fp32_weights()[0], weights[0])


@pytest.mark.parametrize("rule", ["adafactor", "soap"])
def test_auxiliary_state_stays(rule):
    p, q = parameter(8, 8), parameter(8, 8)
    optimizer = jitstep.Optimizer(rule, [p, q])
    steps(optimizer, p, q, count=2)
    before = copy.deepcopy(optimizer.state[p])
    q.data = q.data[:4].clone()
    with pytest.raises(ValueError, match="parameter 1"):
        steps(optimizer, p, q)
    assert same(optimizer.state[p], before)


def test_a_gradient_that_no_kernel_can_read_leaves_no_new_state():
    p, q = parameter(4), parameter(4)
    optimizer = jitstep.AdamW([p, q])
    p.grad, q.grad = torch.ones(4), p.data
    with pytest.raises(ValueError, match="shares memory"):
        optimizer.step()
    assert not optimizer.state


def test_shared_state_starts_again_with_the_state():
    p = parameter(4)
    optimizer = jitstep.Prodigy([p], lr=1.0)
    steps(optimizer, p, count=5)
    optimizer.state.clear()
    q = torch.nn.Parameter(p.detach().clone())
    fresh = jitstep.Prodigy([q], lr=1.0)
    steps(optimizer, p, count=3)
    steps(fresh, q, count=3)
    assert torch.equal(p, q)
    shared = [one.state_dict()["param_groups"][0]["shared_state"] for one in (optimizer, fresh)]
    assert shared[0] == shared[1]


def test_shared_state_before_the_first_step_follows_the_options():
    p = parameter(4)
    optimizer = jitstep.Prodigy([p], lr=1.0)
    optimizer.found_inf = torch.tensor(1.0)
    steps(optimizer, p)
    optimizer.found_inf = None
    optimizer.param_groups[0]["d0"] = 1e-2
    q = torch.nn.Parameter(p.detach().clone())
    fresh = jitstep.Prodigy([q], lr=1.0, d0=1e-2)
    steps(optimizer, p, count=2)
    steps(fresh, q, count=2)
    assert torch.equal(p, q)


@pytest.mark.parametrize("state", ["fp32", "int8", "bf16"])
def test_state_before_the_first_step_has_its_initial_value_in_every_format(state):
    p = parameter(64)
    optimizer = jitstep.Adagrad([p], initial_accumulator_value=0.5, state=state, min_quantized_size=0)
    assert torch.equal(optimizer.value(p, "sum"), torch.full((64,), 0.5))
    assert torch.equal(optimizer.export()["state"][0]["sum"], torch.full((64,), 0.5))
    q = torch.nn.Parameter(p.detach().clone())
    other = torch.optim.Adagrad([q], initial_accumulator_value=0.5)
    other.load_state_dict(optimizer.export())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(optimizer, p)
    steps(other, q)
    assert torch.allclose(p, q, atol=1e-6)


def test_codes_of_two_buffers_may_not_be_one_tensor():
    p = parameter(64)
    optimizer = jitstep.AdamW([p], state={"exp_avg": "fp8", "exp_avg_sq": "fp8"}, min_quantized_size=0)
    steps(optimizer, p)
    optimizer.state[p]["exp_avg_sq.codes"] = optimizer.state[p]["exp_avg.codes"]
    with pytest.raises(ValueError, match=r"exp_avg_sq\.codes shares memory"):
        steps(optimizer, p)


def test_shared_state_of_a_checkpoint_without_steps_is_used():
    p, q = parameter(4), parameter(4)
    q.data = p.data.clone()
    optimizer, other = jitstep.Prodigy([p], lr=1.0), jitstep.Prodigy([q], lr=1.0, d0=0.5)
    saved = optimizer.state_dict()
    saved["param_groups"][0]["shared_state"] = {**saved["param_groups"][0]["shared_state"], "d": 0.5, "d_max": 0.5}
    optimizer.load_state_dict(saved)
    optimizer.param_groups[0]["d0"] = 0.5
    steps(optimizer, p, count=2)
    steps(other, q, count=2)
    assert torch.equal(p, q)
