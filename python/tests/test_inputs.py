"""Inputs of a rule in addition to the gradient."""

import pytest
import torch

import jitstep


def adahessian(p):
    """A step of lr in the direction of g / (|h| + eps)."""
    p.grad = torch.ones_like(p)
    return jitstep.AdaHessian([p], lr=1.0, betas=(0.0, 0.0), eps=0.5)


def test_an_input_is_read_once_by_the_next_step_with_a_gradient():
    p = torch.nn.Parameter(torch.zeros(5, 3, dtype=torch.float64).t())
    optimizer = adahessian(p)
    h = torch.rand(3, 5) + 1
    p.grad = None
    optimizer.set_input(p, "hessian", h)
    optimizer.step()
    p.grad = torch.ones_like(p)
    optimizer.step()
    expected = -1 / (h.double() + 0.5)
    torch.testing.assert_close(p.detach(), expected)
    optimizer.step()  # the second moment keeps its value
    torch.testing.assert_close(p.detach(), 2 * expected)
    optimizer.set_input(p, "hessian", torch.full_like(h, 9.5))
    optimizer.step()
    torch.testing.assert_close(p.detach(), 2 * expected - 0.1)


def test_an_input_can_be_taken_back_and_works_in_backward():
    p = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer = adahessian(p)
    optimizer.set_input(p, "hessian", torch.ones(4))
    optimizer.set_input(p, "hessian", None)
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.full((4,), -2.0, dtype=torch.float64))
    p.grad = None
    optimizer.step_in_backward()
    for _ in range(2):
        optimizer.set_input(p, "hessian", torch.full((4,), 1.5))
        p.sum().backward()
    torch.testing.assert_close(p.detach(), torch.full((4,), -3.0, dtype=torch.float64))


def test_an_input_is_forgotten_after_a_step_that_is_skipped():
    p, q = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(4))
    optimizer = jitstep.AdaHessian([p, q], lr=1.0, betas=(0.0, 0.0), eps=0.5, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(torch.ones(()))
    for one in (p, q):
        optimizer.set_input(one, "hessian", torch.full((4,), 7.5))
    p.grad = torch.full((4,), float("inf"))
    scaler.step(optimizer)
    scaler.update()
    p.grad, q.grad = (torch.full((4,), scaler.get_scale()) for _ in range(2))
    scaler.step(optimizer)
    assert torch.equal(p.detach(), torch.full((4,), -2.0))  # the second moment is still 0
    assert torch.equal(q.detach(), torch.full((4,), -0.125))  # no step of this parameter was skipped


def test_an_input_must_fit():
    p, other = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(4))
    optimizer = adahessian(p)
    for parameter, name, value, named in (
        (other, "hessian", p, "not a parameter of this optimizer"),
        (p, "hessians", p, "no input 'hessians'"),
        (p, "hessian", torch.ones(5), r"'hessian'.* \[5\].* \[4\]"),
        (p, "hessian", torch.ones(4, dtype=torch.complex64), "complex"),
    ):
        with pytest.raises(ValueError, match=named):
            optimizer.set_input(parameter, name, value)
    for parameter, value in ((p, 1.0), (p, [1.0] * 4), (1.0, p)):
        with pytest.raises(TypeError, match="set_input"):
            optimizer.set_input(parameter, "hessian", value)
    with pytest.raises(ValueError, match="adamw has no input"):
        jitstep.AdamW([p]).set_input(p, "hessian", p)
