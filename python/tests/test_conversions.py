"""Conversions: checkpoints of other formats, weight formats, dtypes and memory orders."""

import copy
import warnings

import pytest
import torch
from test_checkpoints import adamw
from training import assert_stored, make, same, saved, train

import jitstep


@pytest.mark.parametrize("state", ["int8", "int4", "bf16"])
def test_a_checkpoint_of_torch_loads_into_few_bits_with_one_warning(state):
    a, b = make(), make()
    theirs = torch.optim.AdamW(a.parameters())
    train(a, theirs, 20)
    b.load_state_dict(a.state_dict())
    ours = jitstep.AdamW(b.parameters(), state=state, min_quantized_size=512)
    with pytest.warns(UserWarning, match=f"exp_avg from fp32 to {state}") as caught:
        ours.load_state_dict(saved(theirs.state_dict()))
    assert len(caught) == 1
    held = ours.state[b[0].weight]
    assert "exp_avg" not in held
    assert held["exp_avg.codes"].dtype == torch.uint8
    assert held["step"] == 20
    for slot in ("exp_avg", "exp_avg_sq"):
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            assert_stored(ours.value(q, slot), theirs.state[p][slot], state)
    losses = train(a, theirs, 10, seed=3), train(b, ours, 10, seed=3)
    assert abs(losses[0][-1] - losses[1][-1]) < 2e-2 * losses[0][-1]


def test_few_bits_are_exported_to_torch():
    a, b, c = make(), make(), make()
    ours = jitstep.AdamW(a.parameters(), state="int8", min_quantized_size=512)
    reference = torch.optim.AdamW(c.parameters())
    train(a, ours, 20)
    train(c, reference, 20)
    b.load_state_dict(a.state_dict())
    theirs = torch.optim.AdamW(b.parameters())
    theirs.load_state_dict(saved(ours.export()))
    for p, q, r in zip(a.parameters(), b.parameters(), c.parameters(), strict=True):
        held, exact = theirs.state[q], reference.state[r]
        assert held["step"] == 20
        for slot in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(held[slot], ours.value(p, slot))
            assert (held[slot] - exact[slot]).norm() < 0.05 * exact[slot].norm()  # the errors of 20 roundings
    losses = train(a, ours, 10, seed=3), train(b, theirs, 10, seed=3)
    assert abs(losses[0][-1] - losses[1][-1]) < 3e-3 * losses[0][-1]


@pytest.mark.parametrize("weights", [None, "split16"])
def test_a_checkpoint_may_have_values_in_place_of_codes(weights):
    a, b = make(torch.bfloat16), make(torch.bfloat16)
    first, second = (
        jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=0, weights=weights) for net in (a, b)
    )
    train(a, first, 5)
    with_codes = first.state_dict()
    first.save_values = True
    with_values = saved(first.state_dict())
    for packed, p in zip(with_values["state"].values(), a.parameters(), strict=True):
        assert not [key for key in packed if key.startswith("exp_avg") and "." in key]
        assert torch.equal(packed["exp_avg"], first.value(p, "exp_avg"))
        assert ("residual" in packed) == (weights is not None)
    b.load_state_dict(a.state_dict())
    with pytest.warns(UserWarning, match="exp_avg from fp32 to int8"):
        second.load_state_dict(with_values)
    for p, q, packed in zip(a.parameters(), b.parameters(), with_codes["state"].values(), strict=True):
        assert second.state[q].keys() == first.state[p].keys()
        assert "exp_avg.codes" in packed
        assert_stored(second.value(q, "exp_avg"), first.value(p, "exp_avg"), "int8")


def test_a_format_by_buffer_is_one_text_if_a_checkpoint_has_values():
    optimizer = jitstep.AdamW(make().parameters(), state={"exp_avg": "int8"})
    optimizer.save_values = True
    assert optimizer.state_dict()["param_groups"][0]["state"] == '{"exp_avg": "int8"}'


def test_loading_changes_the_format_but_not_the_values():
    a, b = make(), make()
    first = jitstep.AdamW(a.parameters(), state="int4", min_quantized_size=0)
    train(a, first, 5)
    second = jitstep.AdamW(b.parameters())
    with pytest.warns(UserWarning, match="from int4 to fp32"):
        second.load_state_dict(saved(first.state_dict()))
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(first.value(p, "exp_avg"), second.state[q]["exp_avg"])


def test_codes_are_reordered_for_another_memory_format():
    def network(form):
        torch.manual_seed(1)
        return torch.nn.Conv2d(8, 16, 3).to(memory_format=form)

    a, b = network(torch.channels_last), network(torch.contiguous_format)
    first = jitstep.AdamW(a.parameters(), state="int8", min_quantized_size=0, weights="split16")
    for p in a.parameters():
        p.grad = torch.randn_like(p)
    first.step()
    assert first.state[a.weight]["strides"] == a.weight.stride()
    second = jitstep.AdamW(b.parameters(), state="bf16", min_quantized_size=0)
    with pytest.warns(UserWarning, match="from int8 to bf16"):
        second.load_state_dict(saved(first.state_dict()))
    for q in b.parameters():
        q.grad = torch.zeros_like(q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second.step()
    torch.testing.assert_close(
        second.value(b.weight, "exp_avg"), 0.9 * first.value(a.weight, "exp_avg"), rtol=1e-2, atol=1e-3
    )


def permuted_parameters():
    generator = torch.Generator().manual_seed(1)
    kernel = torch.randn(16, 8, 3, 3, generator=generator).contiguous(memory_format=torch.channels_last)
    matrix = torch.randn(40, 48, generator=generator).t()
    return [torch.nn.Parameter(kernel), torch.nn.Parameter(matrix)]


def step_with_random_gradients(parameters, optimizer, seed):
    generator = torch.Generator().manual_seed(seed)
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
    optimizer.step()


def test_state_of_permuted_parameters_is_converted_when_it_is_loaded():
    a, b, c = (permuted_parameters() for _ in range(3))
    first = torch.optim.AdamW(a)
    step_with_random_gradients(a, first, 2)
    second, third = (jitstep.AdamW(one, state="int8", min_quantized_size=0) for one in (b, c))
    with pytest.warns(UserWarning, match="2 parameters: exp_avg from fp32 to int8") as caught:
        second.load_state_dict(saved(first.state_dict()))
    assert [one.filename for one in caught] == [__file__]
    for p, q in zip(a, b, strict=True):
        assert "exp_avg" not in second.state[q]
        assert second.state[q]["strides"] == q.stride()
        torch.testing.assert_close(second.value(q, "exp_avg"), first.state[p]["exp_avg"], rtol=5e-2, atol=5e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        third.load_state_dict(saved(second.state_dict()))
        for parameters, optimizer in ((b, second), (c, third)):
            step_with_random_gradients(parameters, optimizer, 3)
    assert all(torch.equal(p, q) for p, q in zip(b, c, strict=True))


def test_a_residual_in_another_memory_order_waits_for_the_parameter():
    a = [torch.nn.Parameter(p.detach().bfloat16().contiguous()) for p in permuted_parameters()]
    b = [torch.nn.Parameter(p.detach().bfloat16()) for p in permuted_parameters()]
    first, second = (jitstep.AdamW(one, weights="split16") for one in (a, b))
    step_with_random_gradients(a, first, 2)
    second.load_state_dict(saved(first.state_dict()))
    with torch.no_grad():
        for p, q in zip(a, b, strict=True):
            q.copy_(p)
    for parameters, optimizer in ((a, first), (b, second)):
        step_with_random_gradients(parameters, optimizer, 3)
    for p, q, master, other in zip(a, b, first.fp32_weights(), second.fp32_weights(), strict=True):
        assert q.stride() != p.stride()
        assert torch.equal(p, q)
        assert torch.equal(master, other)


def test_a_weight_format_is_converted_at_the_next_step():
    a, b = make(torch.bfloat16), make(torch.bfloat16)
    first = adamw(weights="split16")(a)
    train(a, first, 10)
    second = adamw(weights="master")(b)
    second.load_state_dict(saved(first.state_dict()))
    b.load_state_dict(a.state_dict())  # after the optimizer: the residual waits for the parameter
    before = first.fp32_weights()
    for optimizer in (first, second):
        optimizer.param_groups[0]["lr"] = 0.0  # the conversion alone
    with pytest.warns(UserWarning, match="weights from split16 to master"):
        train(b, second, 1, seed=3)
    train(a, first, 1, seed=3)
    for old, one, other, q in zip(before, first.fp32_weights(), second.fp32_weights(), b.parameters(), strict=True):
        assert torch.equal(one, old)
        assert torch.equal(other, old)
        assert not torch.equal(other, q.float())
    for optimizer in (first, second):
        optimizer.param_groups[0]["lr"] = 1e-3
    losses = train(a, first, 5, seed=4), train(b, second, 5, seed=4)
    assert second.state[b[0].weight]["residual"].numel() == 4 * 64 * 128
    for one, other in zip(first.fp32_weights(), second.fp32_weights(), strict=True):
        assert (one - other).norm() < 2**-14 * one.norm()  # the formats round ties differently
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


@pytest.mark.parametrize(
    ("saved_weights", "dtype", "weights"),
    [
        ("split16", torch.bfloat16, "native"),
        ("master", torch.bfloat16, "stochastic"),
        ("split16", torch.float32, "native"),
        ("split16", torch.float16, "master"),
        ("kahan", torch.float16, "split8"),
    ],
)
def test_a_load_names_extra_bits_that_it_drops(saved_weights, dtype, weights):
    a = make(torch.bfloat16)
    first = adamw(weights=saved_weights)(a)
    train(a, first, 3)
    b = copy.deepcopy(a).to(dtype)
    second = adamw(weights=weights)(b)
    with pytest.warns(UserWarning, match=f"weights from {saved_weights}.* to {weights}.*, without the residual"):
        second.load_state_dict(saved(first.state_dict()))
    for p, fp32 in zip(b.parameters(), second.fp32_weights(), strict=True):
        assert torch.equal(fp32, p.detach().float())
    second.param_groups[0]["lr"] = 0.0
    for p in b.parameters():
        p.grad = torch.zeros_like(p)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second.step()
    assert all(torch.equal(p.detach().to(q), q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_a_residual_is_made_for_a_checkpoint_without_one():
    net, reference = make(torch.bfloat16), make(torch.bfloat16)
    theirs = torch.optim.AdamW(reference.parameters())
    train(reference, theirs, 3)
    net.load_state_dict(reference.state_dict())
    ours = adamw(weights="master")(net)
    ours.load_state_dict(saved(theirs.state_dict()))
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    ours.param_groups[0]["lr"] = 0.0
    ours.step()
    assert same(net, reference)


@pytest.mark.parametrize("weights", ["master", "split8"])
def test_a_parameter_may_get_another_dtype_between_steps(weights):
    net = make(torch.bfloat16)
    optimizer = adamw(weights=weights)(net)
    train(net, optimizer, 3)
    net.half()
    before = copy.deepcopy(net)
    assert all(torch.equal(w, p.float()) for w, p in zip(optimizer.fp32_weights(), before.parameters(), strict=True))
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.param_groups[0]["lr"] = 0.0
    with pytest.warns(UserWarning, match="in bfloat16 to .* in float16, without the residual"):
        optimizer.step()
    assert same(net, before)


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({"max_grad_norm": 1.0, "caution": True}, "caution, max_grad_norm"),
        ({"weights": "split16"}, "weight residuals"),
        ({}, ""),
    ],
)
def test_an_export_warns_of_what_torch_does_not_have(options, lost):
    p = torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    optimizer = jitstep.AdamW([p], lr=0.1, weight_decay=0.5, betas=(0.8, 0.9), **options)
    p.grad = torch.ones_like(p)
    optimizer.step()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.export()
    assert [lost in str(one.message) for one in caught] == ([True] if lost else [])
