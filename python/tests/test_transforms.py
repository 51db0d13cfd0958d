"""Host transforms: functions of Python in a step."""

import pytest
import torch

import jitstep

STEPPED = """// A probe.   host transform: stepped
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::stepped {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Slots {
  Signed m;  // after: transformed
};
struct Rule {
  KHD static real transformed(const auto& e, const auto&) { return e.g; }
  KHD static void update_state_after(auto& e, const auto&) { e.m.next = e.m.prev + e.transformed; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.m.next; }
};
}
"""


def test_a_host_transform_gets_sizes_options_and_the_step_number(tmp_path):
    (tmp_path / "stepped.cuh").write_text(STEPPED)
    jitstep.load_rule(str(tmp_path / "stepped.cuh"))
    calls = []

    def multiply(call):
        calls.append((list(call.values.shape), call.group["lr"], call.step))
        call.values.mul_(10**call.step)

    jitstep.register_parameter_transform("stepped", multiply)
    with pytest.raises(ValueError, match="exists already"):
        jitstep.register_host_transform("stepped", lambda values, group: values)
    one, other = torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer = jitstep.Optimizer("stepped", [{"params": [one], "lr": 0.5}, {"params": [other]}])
    for step in (1, 2):
        one.grad, other.grad = torch.ones(2, 3), torch.ones(4, dtype=torch.float64) if step == 2 else None
        optimizer.step()
    assert sorted(calls, key=str) == [([2, 3], 0.5, 1), ([2, 3], 0.5, 2), ([4], 1.0, 1)]
    assert torch.equal(one.detach(), torch.full((2, 3), 110.0))
    assert torch.equal(other.detach(), torch.full((4,), 10.0, dtype=torch.float64))


def test_a_parameter_without_dimensions_is_a_tensor_without_dimensions_in_a_transform(tmp_path):
    (tmp_path / "stepped.cuh").write_text(STEPPED)
    jitstep.load_rule(str(tmp_path / "stepped.cuh"))
    shapes = []

    def doubled(values, group):
        shapes.append(list(values.shape))
        return torch.tensor(2.0) * values.reshape(())

    jitstep.register_host_transform("stepped", doubled, replace=True)
    p = torch.nn.Parameter(torch.tensor(1.0))
    p.grad = torch.tensor(3.0)
    jitstep.Optimizer("stepped", [p]).step()
    assert (shapes, p.item()) == ([[]], 6.0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Muon", ("eps", "ns_steps", "ns_coefficients", "ns_dtype", "adjust_lr_fn")),
        ("NorMuon", ("ns_eps", "ns_steps", "ns_dtype")),
        ("Shampoo", ("precondition_frequency",)),
        ("SOAP", ("betas", "shampoo_beta", "precondition_frequency")),
    ],
)
def test_transforms_use_the_defaults_of_options_that_a_group_lacks(name, options):
    def stepped(change):
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(6, 5))
        optimizer = getattr(jitstep, name)([p])
        change(optimizer.param_groups[0])
        for _ in range(2):
            p.grad = torch.randn(6, 5)
            optimizer.step()
        return p.detach()

    expected = stepped(lambda group: None)
    for option in options:
        assert torch.equal(stepped(lambda group, lacking=option: group.pop(lacking)), expected), option


def test_a_choice_that_is_none_is_the_default_in_transforms_too():
    stepped = {}
    for dtype in (None, "bf16", "real"):
        p = torch.nn.Parameter(torch.ones(6, 5))
        p.grad = torch.arange(30.0).view(6, 5)
        jitstep.Muon([p], ns_dtype=dtype).step()
        stepped[dtype] = p.detach()
    assert torch.equal(stepped[None], stepped["bf16"])
    assert not torch.equal(stepped[None], stepped["real"])


@pytest.fixture
def transformed(tmp_path):
    """An optimizer with the host transform "stepped", and its parameter with a gradient."""
    (tmp_path / "stepped.cuh").write_text(STEPPED)
    jitstep.load_rule(str(tmp_path / "stepped.cuh"))
    p = torch.nn.Parameter(torch.zeros(2, 3))
    p.grad = torch.ones(2, 3)
    yield jitstep.Optimizer("stepped", [p]), p
    jitstep.transforms._transforms.pop("stepped", None)


@pytest.mark.parametrize(
    ("register", "function", "error", "words"),
    [
        ("parameter", lambda call: call.values * 2, TypeError, "'stepped' returned.*call.values in place"),
        ("host", lambda values, group: None, TypeError, "'stepped' returned None.*tensor"),
        ("host", lambda values, group: 3.0, TypeError, "'stepped' returned.* float.*tensor"),
        ("host", lambda values, group: values.T, ValueError, r"'stepped' returned.*\[3, 2\].*\[2, 3\]"),
    ],
)
def test_a_transform_with_a_wrong_result_is_named(transformed, register, function, error, words):
    getattr(jitstep, f"register_{register}_transform")("stepped", function, replace=True)
    with pytest.raises(error, match=words):
        transformed[0].step()
    assert torch.equal(transformed[1].detach(), torch.zeros(2, 3))


def _resized(values, group):
    values.resize_(1)
    return values


@pytest.mark.parametrize(
    "function",
    [
        lambda values, group: values.set_(torch.full((1,), 7.0)),
        lambda values, group: values.set_(torch.full((2, 3), 7.0)),
        _resized,
        lambda values, group: values.to(torch.complex64),
        lambda values, group: values.to("meta"),
        lambda values, group: values.to_sparse(),
    ],
)
def test_a_transform_keeps_its_tensor_in_place_dense_and_real(transformed, function):
    optimizer, p = transformed
    jitstep.register_host_transform("stepped", function)
    with pytest.raises(ValueError, match="host transform 'stepped'"):
        optimizer.step()
    assert torch.equal(p.detach(), torch.zeros(2, 3))
    jitstep.register_host_transform("stepped", lambda values, group: values * 2, replace=True)
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((2, 3), 2.0))


def test_a_transform_is_replaced_if_asked(transformed):
    optimizer, p = transformed
    jitstep.register_host_transform("stepped", lambda values, group: values * 2, replace=True)
    optimizer.step()
    with pytest.raises(ValueError, match=r"'stepped' exists already.*replace=True"):
        jitstep.register_parameter_transform("stepped", lambda call: call.values.mul_(5))
    jitstep.register_parameter_transform("stepped", lambda call: call.values.mul_(5), replace=True)
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((2, 3), 7.0))
    for register in (jitstep.register_host_transform, jitstep.register_parameter_transform):
        with pytest.raises(TypeError, match=r"'other'.*function"):
            register("other", 3)


STEPS = {
    "SOAP": {},
    "Shampoo": {},
    "Muon": {"ns_dtype": "real"},
    "AdaMuon": {},
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_under_autocast_has_the_same_bits(name):
    stepped = []
    for autocast in (False, True):
        torch.manual_seed(1)
        p = torch.nn.Parameter(torch.randn(8, 12))
        optimizer = getattr(jitstep, name)([p], lr=0.1, **STEPS[name])
        for _ in range(3):
            p.grad = torch.randn(8, 12)
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                optimizer.step()
        stepped.append(p.detach())
    assert torch.equal(*stepped)


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_transform_of_a_program_computes_without_autocast(transformed, in_backward):
    optimizer, p = transformed
    seen = []

    def multiply(values, group):
        seen.append((torch.is_autocast_enabled("cpu"), (values @ values.T).dtype))
        return values

    jitstep.register_host_transform("stepped", multiply, replace=True)
    optimizer.step_in_backward(in_backward)
    with torch.autocast("cpu", torch.bfloat16):
        if in_backward:
            p.grad = None
            p.sum().backward()
        else:
            optimizer.step()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [(False, torch.float32)]


@pytest.mark.parametrize("call", ["step", "tune", "compile"])
def test_a_transform_may_not_step_its_optimizer(transformed, call):
    optimizer, p = transformed
    calls = []

    def nested(values, group):
        calls.append(call)
        getattr(optimizer, call)()
        return values

    jitstep.register_host_transform("stepped", nested)
    if call == "compile":  # has tables of its own
        optimizer.step()
        assert torch.equal(p.detach(), torch.ones(2, 3))
        return
    with pytest.raises(ValueError, match="a step of this optimizer is running"):
        optimizer.step()
    assert calls == [call]
    assert torch.equal(p.detach(), torch.zeros(2, 3))
    jitstep.register_host_transform("stepped", lambda values, group: values, replace=True)
    optimizer.step()
    assert torch.equal(p.detach(), torch.ones(2, 3))
