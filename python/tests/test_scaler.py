"""Mixed precision: GradScaler, with and without fused=True."""

import pytest
import torch
from training import assert_close, make, train

import jitstep


@pytest.mark.parametrize("fused", [None, True])
def test_a_grad_scaler_trains_as_torchs_fused_optimizer(fused):
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net.parameters(), fused=fused)
        train(net, optimizer, 5, scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))
        nets.append(net)
    assert_close(*nets)
    grads = [[p.grad for p in net.parameters()] for net in nets]
    for p, q in zip(*grads, strict=True):  # unscaled gradients stay in memory
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("found_inf", "stepped"), [(0, True), (1.0, False), (True, False)])
def test_found_inf_may_be_a_number(found_inf, stepped):
    p = torch.nn.Parameter(torch.zeros(3))
    p.grad = torch.ones(3)
    optimizer = jitstep.SGD([p], lr=1.0, fused=True)
    optimizer.found_inf = found_inf
    optimizer.step()
    assert p.tolist() == [-1.0 * stepped] * 3


@pytest.mark.parametrize("fused", [None, True])
def test_a_step_with_an_infinite_gradient_is_skipped(fused):
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    train(net, optimizer, 2, scaler=scaler)
    before = [p.detach().clone() for p in net.parameters()]
    scaler.scale(net(torch.ones(4, 64)).mean()).backward()
    net[0].weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))
    assert scaler.get_scale() == 512.0
    assert optimizer.state[net[0].weight]["step"] == 2


def test_unscaled_gradients_can_be_clipped_before_the_step():
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net.parameters(), fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(4, 64)).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
            scaler.step(optimizer)
            scaler.update()
        nets.append(net)
    assert_close(*nets)


@pytest.mark.parametrize("name", ["grad_scale", "found_inf"])
@pytest.mark.parametrize("elements", [0, 2])
def test_a_scale_of_several_numbers_is_an_error_before_the_step(name, elements):
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0)
    p.grad = torch.ones(3)
    setattr(optimizer, name, torch.ones(elements))
    with pytest.raises(ValueError, match=f"{name} has {elements} elements"):
        optimizer.step()
    assert torch.equal(p.detach(), torch.ones(3))


def test_a_scale_may_be_a_number():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0)
    p.grad = torch.ones(3)
    optimizer.grad_scale = 4.0
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((3,), 0.75))


def test_a_scale_in_the_memory_of_a_parameter_is_an_error():
    p = torch.nn.Parameter(torch.full((4,), 2.0))
    optimizer = jitstep.SGD([p], lr=1.0)
    optimizer.grad_scale = p.detach()[1]
    p.grad = torch.ones(4)
    with pytest.raises(ValueError, match="grad_scale lies in the memory of a parameter"):
        optimizer.step()
    optimizer.grad_scale = optimizer.grad_scale.clone()
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((4,), 1.5))


def test_gradients_that_cannot_be_unscaled_in_place_are_replaced():
    p, q = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.full((4,), 2.0))
    optimizer = jitstep.SGD([p, q], lr=1.0)
    optimizer.grad_scale = torch.tensor(2.0)
    p.grad, q.grad = torch.ones(1).expand(4), q.data
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((4,), 0.5))
    assert torch.equal(q.detach(), torch.ones(4))
    assert torch.equal(p.grad, torch.full((4,), 0.5))


def test_sparse_and_recorded_gradients_are_unscaled():
    table = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = jitstep.SGD(table.parameters(), lr=1.0, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    before = table.weight.detach().clone()
    scaler.scale(table(torch.tensor([1, 1, 4])).sum()).backward()
    scaler.step(optimizer)
    assert torch.equal(table.weight[1], before[1] - 2)
    assert torch.equal(table.weight.grad.to_dense()[4], torch.ones(3))
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = jitstep.SGD([p], lr=1.0)
    optimizer.grad_scale = torch.tensor(2.0)
    p.grad = torch.ones(1, requires_grad=True).expand(4)
    optimizer.step()
    assert not p.grad.requires_grad
