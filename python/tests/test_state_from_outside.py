"""Rates, step numbers, gradients, state and memory that programs set between steps."""

import copy
import warnings

import pytest
import torch
from training import assert_close, assert_stored, make, same, train

import jitstep
from jitstep import _core


def test_a_tensor_rate_may_change_in_place():
    net, rate = make(), torch.tensor(1e-3)
    optimizer = jitstep.AdamW(net.parameters(), lr=rate, weight_decay=0)
    train(net, optimizer, 1)
    before = copy.deepcopy(net)
    rate.zero_()
    train(net, optimizer, 1)
    assert same(net, before)


def test_a_parameter_without_gradient_is_skipped_and_needs_no_new_tables():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    train(net, optimizer, 2)
    before = net[0].weight.detach().clone()
    prepared = []
    optimizer._prepare = lambda scaled: prepared.append(scaled)
    for _ in range(3):
        net[0].weight.grad = None
        optimizer.step()
    assert torch.equal(net[0].weight, before)
    assert optimizer.state[net[0].weight]["step"] == 2
    assert optimizer.state[net[0].bias]["step"] == 5
    assert prepared == []


def test_parameters_that_get_gradients_later_join():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    net[2].weight.grad = torch.ones_like(net[2].weight)
    optimizer.step()
    train(net, optimizer, 1)
    assert optimizer.state[net[2].weight]["step"] == 2
    assert optimizer.state[net[0].weight]["step"] == 1


def test_the_parameters_of_a_group_may_become_a_tuple():
    nets = []
    for module in (torch.optim, jitstep):
        nets.append(make())
        optimizer = module.AdamW(nets[-1].parameters())
        train(nets[-1], optimizer, 2)
        optimizer.param_groups[0]["params"] = tuple(optimizer.param_groups[0]["params"])
        train(nets[-1], optimizer, 2)
    assert_close(*nets)


@pytest.mark.parametrize("more", [1, 2, 3])
@pytest.mark.parametrize("in_place", [True, False])
def test_step_numbers_may_be_set_from_outside(more, in_place):
    nets = []
    for module in (torch.optim, jitstep):
        nets.append(make())
        optimizer = module.Adafactor(nets[-1].parameters())
        train(nets[-1], optimizer, 2)
        for held in optimizer.state.values():
            if in_place:
                held["step"] += more
            else:
                held["step"] = held["step"] + more
        train(nets[-1], optimizer, 3)
        assert all(held["step"] == 5 + more for held in optimizer.state.values())
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


# A float32 cannot count further, in torch neither. The bias corrections are 1 before, too.
def test_auxiliary_state_changes_after_2_to_24_steps():
    nets = []
    for taken in (2**24 - 100, 2**24):
        nets.append(make())
        optimizer = jitstep.AdamW(nets[-1].parameters(), lr=0.1, betas=(0.9, 0.9), state="factored")
        train(nets[-1], optimizer, 1)
        for held in optimizer.state.values():
            held["step"].fill_(taken)
        train(nets[-1], optimizer, 4)
    assert same(*nets)


def test_state_may_be_set_from_outside():
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net.parameters())
        train(net, optimizer, 2)
        held = optimizer.state[net[0].weight]
        held["exp_avg"] = torch.zeros_like(held["exp_avg"])
        held["exp_avg_sq"].data = held["exp_avg_sq"].data.clone()
        train(net, optimizer, 2, seed=3)
        net[0].weight.data = net[0].weight.data.clone()
        train(net, optimizer, 2, seed=4)
        nets.append(net)
    assert_close(*nets)


def values_like(p):
    return torch.linspace(0, 1, p.numel()).reshape(p.shape)


@pytest.mark.parametrize("state", ["int8", "int4", "factored", "bf16"])
def test_values_that_a_program_assigns_replace_codes(state):
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), betas=(0.25, 0.999), state=state, min_quantized_size=0)
    train(net, optimizer, 2)
    p = net[0].weight
    keys, values = set(optimizer.state[p]), values_like(p)
    optimizer.state[p]["exp_avg"] = values.clone()
    assert torch.equal(optimizer.value(p, "exp_avg"), values)
    for one in net.parameters():
        one.grad = torch.zeros_like(one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert set(optimizer.state[p]) == keys
    assert optimizer.state[p]["step"] == 3
    torch.testing.assert_close(optimizer.value(p, "exp_avg"), 0.25 * values, rtol=0.15, atol=0.08)


def test_values_in_a_checkpoint_replace_the_codes_beside_them():
    net, other = make(), make()
    optimizer, loaded = (jitstep.AdamW(one.parameters(), state="int8", min_quantized_size=0) for one in (net, other))
    train(net, optimizer, 2)
    packed = copy.deepcopy(optimizer.state_dict())
    values = values_like(net[0].weight)
    packed["state"][0]["exp_avg"] = values
    loaded.load_state_dict(packed)
    held = loaded.state[other[0].weight]
    assert "exp_avg" not in held
    assert_stored(loaded.value(other[0].weight, "exp_avg"), values, "int8")
    assert torch.equal(held["exp_avg_sq.codes"], optimizer.state[net[0].weight]["exp_avg_sq.codes"])


def test_values_beside_codes_of_another_shape_are_refused_and_change_nothing():
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=0)
    train(net, optimizer, 2)
    held, before = optimizer.state[net[0].weight], copy.deepcopy(net)
    codes = held["exp_avg.codes"].clone()
    held["exp_avg"] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"exp_avg has the shape \[3\]"):
        optimizer.step()
    assert same(net, before)
    del held["exp_avg"]
    assert torch.equal(held["exp_avg.codes"], codes)
    optimizer.step()


def test_a_parameter_may_get_the_old_memory_of_one_without_gradient():
    parameters = [torch.nn.Parameter(torch.ones(64)) for _ in range(2)]
    optimizer = jitstep.SGD(parameters, lr=1.0)
    for p in parameters:
        p.grad = torch.ones(64)
    optimizer.step()
    old = parameters[0].data
    parameters[0].data = parameters[0].data.clone()
    parameters[1].data = old
    parameters[0].grad = None
    optimizer.step()
    assert torch.equal(parameters[0], torch.zeros(64))
    assert torch.equal(parameters[1], torch.full((64,), -1.0))


@pytest.mark.parametrize("exchanged", [True, False])
def test_state_in_other_memory_is_read_by_the_next_step(exchanged):
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    _core.use_exchange(capsule if exchanged else None)
    try:
        parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(40)]
        optimizer = jitstep.SGD(parameters, lr=1.0, momentum=1.0)
        for p in parameters:
            p.grad = torch.ones(3)
        optimizer.step()
        held = optimizer.state[parameters[30]]["momentum_buffer"]
        before = held.detach()
        held.data = torch.full((3,), 10.0)
        optimizer.step()
    finally:
        _core.use_exchange(capsule)
    assert torch.equal(before, torch.ones(3))
    assert torch.equal(held, torch.full((3,), 11.0))
    assert [p[0].item() for p in parameters] == [-3.0] * 30 + [-12.0] + [-3.0] * 9


def test_a_parameter_without_a_gradient_stays_after_a_switch_of_modes():
    p, q = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = jitstep.ScheduleFreeSGD([p, q], lr=0.5)
    p.grad = q.grad = torch.ones(3)
    optimizer.step()
    optimizer.eval()
    optimizer.train()
    before, q.grad = q.detach().clone(), None
    optimizer.step()
    assert torch.equal(q, before)
    assert [int(optimizer.state[one]["step"]) for one in (p, q)] == [2, 1]


def test_erased_state_starts_again():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    train(net, optimizer, 2)
    optimizer.state.pop(net[0].weight)
    train(net, optimizer, 1)
    assert optimizer.state[net[0].weight]["step"] == 1


@pytest.mark.parametrize("state", ["fp32", "int8"])
@pytest.mark.parametrize("in_place", [True, False])
def test_values_of_state_before_the_first_step_are_a_warning(state, in_place):
    p = torch.nn.Parameter(torch.ones(4096))
    optimizer = jitstep.Adagrad([p], state=state, initial_accumulator_value=0.5)
    if in_place and state == "fp32":
        optimizer.state[p]["sum"].fill_(4.0)
    else:
        optimizer.state[p]["sum"] = torch.full((4096,), 4.0)
    p.grad = torch.ones(4096)
    with pytest.warns(UserWarning, match="the values of sum have no effect"):
        optimizer.step()
    assert torch.allclose(optimizer.value(p, "sum"), torch.tensor(1.5), rtol=0.02)


@pytest.mark.parametrize("state", ["fp32", "int8"])
def test_state_as_jitstep_made_it_is_no_warning_in_the_first_step(state):
    p = torch.nn.Parameter(torch.ones(4096))
    optimizers = [jitstep.Adagrad([p], state=state, initial_accumulator_value=0.5), jitstep.AdamW([p], state=state)]
    optimizers[1].init_state()
    p.grad = torch.ones(4096)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for optimizer in optimizers:
            optimizer.step()


def stepped(make, count=1):
    ps = [torch.nn.Parameter(torch.ones(6)) for _ in range(count)]
    optimizer = make(ps)
    for p in ps:
        p.grad = torch.linspace(-1, 1, 6)
    optimizer.step()
    return optimizer, *ps


@pytest.mark.parametrize("name", ["step", "exp_avg", "exp_avg_sq"])
@pytest.mark.parametrize("state", ["fp32", "int8"])
def test_an_entry_that_a_program_removes_is_an_error(name, state):
    optimizer, p = stepped(lambda ps: jitstep.AdamW(ps, state=state, min_quantized_size=0))
    kept = dict(optimizer.state[p])
    for key in [key for key in kept if key == name or key.startswith(f"{name}.")]:
        del optimizer.state[p][key]
    with pytest.raises(ValueError, match=f"parameter 0.*lacks {name}"):
        optimizer.step()
    assert p.grad is not None
    optimizer.state[p] = kept
    optimizer.step()
    assert optimizer.state[p]["step"] == 2
    del optimizer.state[p]
    optimizer.step()
    assert optimizer.state[p]["step"] == 1


@pytest.mark.parametrize("wrong", [{}, {"exp_avg_sq": None}, {"exp_average_sq": torch.ones(6)}])
def test_assigned_state_that_is_incomplete_is_an_error(wrong):
    p = torch.nn.Parameter(torch.ones(6))
    optimizer = jitstep.AdamW([p])
    p.grad = torch.ones_like(p)
    optimizer.state[p] = {"step": torch.tensor(1000.0), "exp_avg": torch.ones(6), **wrong}
    with pytest.raises(ValueError, match="lacks exp_avg_sq"):
        optimizer.step()


def test_options_that_are_switched_on_later_still_start_new_state():
    for constructed, options in (
        (jitstep.AdamW, {"amsgrad": True}),
        (jitstep.SGD, {"momentum": 0.9}),
        (lambda ps: jitstep.Adan(ps, max_grad_norm=1.0), {"max_grad_norm": 0.0}),
        (jitstep.RMSprop, {"centered": True, "momentum": 0.5}),
        (lambda ps: jitstep.NovoGrad(ps, betas=(0.0, 0.98)), {"betas": (0.9, 0.98)}),
    ):
        optimizer, p = stepped(constructed)
        optimizer.param_groups[0].update(options)
        optimizer.step()
        assert p.isfinite().all()


@pytest.mark.parametrize("other", ["p", "p.grad", "exp_avg", "part of exp_avg"])
def test_state_that_shares_memory_with_the_parameter_or_other_state_is_an_error(other):
    optimizer, p = stepped(jitstep.AdamW)
    own = optimizer.state[p]
    memory = torch.ones(9)
    if other == "part of exp_avg":
        own["exp_avg"] = memory[:6]
    shared = {"p": p.data, "p.grad": p.grad, "exp_avg": own["exp_avg"], "part of exp_avg": memory[3:]}[other]
    own["exp_avg_sq"] = shared
    with pytest.raises(ValueError, match=r"parameter 0.*exp_avg_sq shares memory"):
        optimizer.step()
    own["exp_avg_sq"] = shared.clone().abs()
    optimizer.step()


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("exp_avg", "a", "exp_avg is a str"),
        ("exp_avg", torch.ones(6).to_sparse(), "exp_avg is sparse"),
        ("exp_avg", torch.ones(6, device="meta"), "exp_avg has no values"),
        ("exp_avg", torch.ones(6, dtype=torch.complex64), "exp_avg is complex"),
        ("exp_avg.format", 5, "exp_avg.format is no text"),
    ],
)
def test_a_state_buffer_of_another_kind_is_an_error_with_the_parameter(entry, value, words):
    state = "int8" if "." in entry else "fp32"
    optimizer, p = stepped(lambda ps: jitstep.AdamW(ps, state=state, min_quantized_size=0))
    before, own = p.detach().clone(), optimizer.state[p][entry]
    optimizer.state[p][entry] = value
    with pytest.raises(ValueError, match=f"parameter 0.*{words}"):
        optimizer.step()
    assert torch.equal(p, before)
    optimizer.state[p][entry] = own
    optimizer.step()


def test_a_step_number_of_two_parameters_is_an_error():
    optimizer, p, q = stepped(jitstep.AdamW, 2)
    optimizer.state[q]["step"] = optimizer.state[p]["step"]
    with pytest.raises(ValueError, match=r"parameter 1.*step is the tensor of parameter 0"):
        optimizer.step()
    optimizer.state[q]["step"] = optimizer.state[p]["step"].clone()
    optimizer.step()
