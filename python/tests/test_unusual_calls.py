"""Sequences of calls that few programs make: groups, gradients and parameters that change at unusual times."""

import pytest
import torch

import jitstep


def parameter(*sizes, dtype=torch.float32):
    return torch.nn.Parameter(torch.zeros(*sizes, dtype=dtype))


def tuned(agree):
    p = parameter(4000)
    optimizer = jitstep.AdamW([p], lr=1.0, weight_decay=0.0)
    optimizer.tune(agree=agree, progress=False)
    return p, optimizer


def test_ranks_agree_on_the_times_of_trials(monkeypatch, tmp_path):
    monkeypatch.setenv("JITSTEP_CACHE_DIR", str(tmp_path))
    asked = []
    p, optimizer = tuned(lambda times: asked.append(times) or times)
    for _ in range(2000):
        p.grad = torch.ones_like(p)
        optimizer.step()
        if asked:
            break
    assert asked
    assert all(isinstance(seconds, float) for seconds in asked[0])


@pytest.mark.parametrize("fails", [lambda times: 1 / 0, lambda times: "no list"])
def test_an_agreement_that_fails_leaves_a_complete_step(fails):
    p, optimizer = tuned(fails)
    q = parameter(4000)
    reference = jitstep.AdamW([q], lr=1.0, weight_decay=0.0)
    failed = False
    for _ in range(2000):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
        reference.step()
        try:
            optimizer.step()
        except (ZeroDivisionError, RuntimeError, TypeError):
            failed = True
            break
    assert failed
    assert torch.equal(p, q)
    assert optimizer.state[p]["step"] == reference.state[q]["step"]


def test_a_gradient_of_another_shape_is_refused_and_changes_nothing():
    p = parameter(4)
    optimizer = jitstep.SGD([p], lr=1.0)
    p.grad = torch.ones(4)
    optimizer.step()
    p.grad = torch.ones(4)
    p.data = torch.zeros(16)
    with pytest.raises(ValueError, match="shape"):
        optimizer.step()
    assert not p.any()


@pytest.mark.parametrize("make", [lambda z: z.conj(), lambda z: z.conj().imag])
def test_a_parameter_that_is_a_lazy_view_is_refused(make):
    p = torch.nn.Parameter(make(torch.tensor([1 + 2j, 3 - 1j])))
    p.grad = torch.ones_like(p)
    before = p.detach().clone()
    with pytest.raises((RuntimeError, ValueError), match="conjugate or negative view"):
        jitstep.SGD([p], lr=1.0).step()
    assert torch.equal(p, before)


def test_a_negated_complex_gradient_has_its_sign_in_every_step():
    p, q = parameter(3, dtype=torch.complex64), parameter(3, dtype=torch.complex64)
    ours, theirs = jitstep.SGD([p], lr=1.0), torch.optim.SGD([q], lr=1.0)
    for step in range(3):
        gradient = torch.full((3,), 1 + 2j * step, dtype=torch.complex64)
        p.grad, q.grad = torch._neg_view(gradient), torch._neg_view(gradient)
        ours.step()
        theirs.step()
    torch.testing.assert_close(p, q)


def test_a_group_that_is_refused_leaves_no_state():
    a, b = parameter(3), parameter(2)
    optimizer = jitstep.Adagrad([a])
    with pytest.raises(ValueError, match="parameter 2"):
        optimizer.add_param_group({"params": [b, torch.nn.Parameter(torch.zeros(1).expand(4))]})
    assert list(optimizer.state) == [a]
    assert len(optimizer.state_dict()["state"]) == 1
    optimizer.add_param_group({"params": [b]})
    assert len(optimizer.state_dict()["state"]) == 2


def test_a_step_in_backward_follows_the_order_of_groups():
    a, b = parameter(2), parameter(2)
    optimizer = jitstep.SGD([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 10.0}])
    optimizer.step_in_backward()
    optimizer.param_groups.reverse()
    (a.sum() + b.sum()).backward()
    assert torch.equal(a, -torch.ones(2))
    assert torch.equal(b, -10 * torch.ones(2))
    del optimizer.param_groups[0]
    a.sum().backward()
    assert torch.equal(a, -2 * torch.ones(2))
    with pytest.raises(RuntimeError, match="in no group"):
        b.sum().backward()


def test_a_step_in_backward_reads_the_numbers_of_its_group():
    found = []
    for in_backward in (False, True):
        parameters = [torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16)) for _ in range(4)]
        groups = [
            {"params": parameters[:1], "initial_accumulated_decay": [0.25]},
            {"params": parameters[1:], "initial_accumulated_decay": [0.5, 0.75, 0.875]},
        ]
        optimizer = jitstep.AdamWBF16(groups, lr=0.125, weight_decay=0.125)
        if in_backward:
            optimizer.step_in_backward()
        for _ in range(8):
            sum(p.float().sum() for p in parameters).backward()
            if not in_backward:
                optimizer.step()
                optimizer.zero_grad()
        found.append(torch.stack([p.detach() for p in parameters]))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    "change", [lambda p: p.double(), lambda p: torch.zeros(3, 2).t(), lambda p: torch.zeros(40, 30)]
)
@pytest.mark.parametrize("in_backward", [False, True])
def test_an_input_for_another_form_of_the_parameter_is_refused(change, in_backward):
    p = parameter(2, 3)
    optimizer = jitstep.Sophia([p], lr=1.0)
    if in_backward:
        optimizer.step_in_backward()
    optimizer.set_input(p, "hessian", torch.ones(2, 3))
    p.data = change(p.data)
    with pytest.raises(ValueError, match="set_input"):
        p.sum().backward()
        optimizer.step()
    p.grad = None
    optimizer.set_input(p, "hessian", torch.ones_like(p))
    p.sum().backward()
    optimizer.step()
    assert p.isfinite().all()
