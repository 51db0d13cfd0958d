"""Optimizers inside a wrapper that passes reads on, and keeps what is assigned, as LightningOptimizer does."""

import torch

import jitstep


class Wrapper:
    """LightningOptimizer has these two lines, so that isinstance() and methods work."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self.__class__ = type("Wrapped", (Wrapper, type(optimizer)), {})

    def __getattr__(self, name):
        return getattr(self._optimizer, name)


def stepped(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.ones_like(p)
    optimizer.step()


def test_modes_are_those_of_the_optimizer():
    optimizer = jitstep.ScheduleFreeAdamW([torch.nn.Parameter(torch.ones(4))])
    stepped(optimizer)
    wrapper = Wrapper(optimizer)
    wrapper.eval()
    assert not optimizer.training
    assert not wrapper.training
    assert optimizer.state_dict()["param_groups"][0]["mode"] == "eval"
    optimizer.train()
    assert wrapper.training


def test_an_optimizer_by_name_has_its_rule_and_settings():
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = jitstep.Optimizer("lion", [p], lr=0.1)
    stepped(optimizer)
    wrapper = Wrapper(optimizer)
    assert wrapper.rule == "lion"
    assert torch.equal(wrapper.value(p, "exp_avg"), optimizer.value(p, "exp_avg"))
    wrapper.save_values = True
    assert optimizer.save_values


def test_steps_in_backward_are_those_of_the_optimizer():
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = jitstep.SGD([p], lr=1.0)
    Wrapper(optimizer).step_in_backward()
    p.sum().backward()
    assert torch.equal(p, torch.zeros(4))
    assert p.grad is None
    Wrapper(optimizer).step_in_backward(False)
    p.sum().backward()
    assert torch.equal(p, torch.zeros(4))
    assert torch.equal(p.grad, torch.ones(4))


def test_a_checkpoint_is_loaded_into_the_optimizer():
    p = torch.nn.Parameter(torch.ones(4))
    optimizer, other = (jitstep.Adam([p], lr=lr) for lr in (0.1, 0.5))
    stepped(other)
    Wrapper(optimizer).load_state_dict(other.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert optimizer.state[p]["step"] == 1
