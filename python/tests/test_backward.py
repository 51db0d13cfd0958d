"""Steps in backward() with re-entrant checkpoints, GradScaler, schedulers and copies."""

import _thread
import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from training import closure_loss, make, same

import jitstep
from jitstep import backward


def used_twice(layer, x, reentrant):
    """A loss for which a re-entrant checkpoint computes two parts of the gradient of the layer's weight."""
    y = checkpoint(layer, x, use_reentrant=reentrant)
    return checkpoint(layer, y.tanh(), use_reentrant=reentrant).pow(2).sum()


def layer_and_input():
    torch.manual_seed(1)
    return torch.nn.Linear(4, 4, bias=False), torch.randn(2, 4, requires_grad=True)


def test_a_second_gradient_in_the_same_backward_is_refused_before_it_is_stepped():
    layer, x = layer_and_input()
    optimizer = jitstep.AdamW(layer.parameters(), lr=0.1)
    optimizer.step_in_backward()
    loss = used_twice(layer, x, reentrant=True)
    with pytest.raises(RuntimeError, match=r"parameter 0 gets a second gradient.*use_reentrant=False"):
        loss.backward()
    assert optimizer.state[layer.weight]["step"] == 1
    layer.weight.grad = None
    for step in (2, 3):  # an error is forgotten
        used_twice(layer, x, reentrant=False).backward()
        assert optimizer.state[layer.weight]["step"] == step


def test_a_parameter_may_be_stepped_once_by_each_of_several_nested_backwards():
    torch.manual_seed(1)
    results = []
    for in_backward in (False, True):
        net = make()
        optimizer = jitstep.AdamW(net.parameters(), lr=0.01)
        optimizer.step_in_backward(in_backward)
        for _ in range(2):
            x = torch.ones(4, 64, requires_grad=True)
            out = checkpoint(net[0], x, use_reentrant=True)
            checkpoint(net[2], out.tanh(), use_reentrant=True).pow(2).mean().backward()
            if not in_backward:
                optimizer.step()
                optimizer.zero_grad()
        results.append(net)
    assert same(*results)


def test_a_graph_may_be_used_by_several_backwards():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0)
    optimizer.step_in_backward()
    loss = (p * 2).sum()
    for _ in range(3):
        loss.backward(retain_graph=True)
    assert torch.equal(p.detach(), torch.full((3,), -5.0))


def test_a_thread_of_torch_belongs_to_the_backward_that_waits_for_it():
    roots, found = [torch.ones(1)], []
    done = threading.Lock()

    def compute():
        found.append(backward._outermost())
        done.release()

    def _engine_run_backward(t_outputs):  # as torch's function of this name, which waits for the threads of GPUs
        done.acquire()
        _thread.start_new_thread(compute, ())
        done.acquire()

    _engine_run_backward(roots)
    assert found[0] == (1, roots[0])


@pytest.mark.parametrize("fused", [None, True])
def test_a_scaler_gets_an_error_that_helps_and_leaves_nothing_behind(fused):
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0, fused=fused)
    optimizer.step_in_backward()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    with pytest.raises(RuntimeError, match=r"GradScaler needs all gradients at once.*step_in_backward\(False\)"):
        scaler.step(optimizer)
    assert torch.equal(p.detach(), torch.full((3,), -3.0))
    optimizer.step_in_backward(False)
    p.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((3,), -4.0))
    assert bool(optimizer._step_supports_amp_scaling) == bool(fused)


def test_a_scheduler_sees_steps_in_backward():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=0.5)
    optimizer.step_in_backward()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            p.sum().backward()
            scheduler.step()
    assert torch.equal(p.detach(), torch.full((3,), 1 - 0.5 - 0.25 - 0.125))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
def test_a_copy_steps_its_own_parameters_in_backward(copied):
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), lr=0.01)
    optimizer.step_in_backward()
    closure_loss(net, 1).backward()
    other, copy_of = copied((net, optimizer))
    assert copy_of.steps_in_backward
    before = copy.deepcopy(net)
    closure_loss(other, 2).backward()
    assert same(net, before)
    closure_loss(net, 2).backward()
    assert same(net, other)
    assert not same(net, before)
    assert not copied(jitstep.SGD(make().parameters(), lr=1.0)).steps_in_backward


def test_a_copy_with_the_same_parameters_does_not_step_them_again():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0)
    optimizer.step_in_backward()
    shallow = copy.copy(optimizer)
    assert not shallow.steps_in_backward
    p.sum().backward()
    assert torch.equal(p.detach(), torch.zeros(3))


def test_the_environment_does_not_tune_steps_in_backward(tmp_path):
    program = """
import torch, jitstep
p = torch.nn.Parameter(torch.ones(4000))
optimizer = jitstep.AdamW([p], lr=0.1)
optimizer.step_in_backward()
for _ in range(3):
    p.sum().backward()
(alone,) = optimizer._status.backward._alone
assert alone.stepper.tuning_progress() == (0, 0)
"""
    environment = {**os.environ, "JITSTEP_TUNE": "1", "JITSTEP_CACHE_DIR": str(tmp_path)}  # without tuning records
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", ["remove", "grow"])
def test_numbers_of_parameters_follow_the_groups(change):
    """Random bits depend on the number."""
    results = []
    for in_backward in (False, True):
        x, y = (torch.nn.Parameter(torch.ones(1000, dtype=torch.bfloat16)) for _ in range(2))
        optimizer = jitstep.SGD([{"params": [x]}, {"params": [y]}], lr=1e-3, weights="stochastic")
        optimizer.step_in_backward(in_backward)
        for _ in range(2):
            (y.float() * 0.5).sum().backward()
            if not in_backward:
                optimizer.step()
                optimizer.zero_grad()
            if change == "remove":
                del optimizer.param_groups[:-1]
            else:
                optimizer.param_groups[0]["params"].append(torch.nn.Parameter(torch.ones(3)))
        results.append(y.detach().clone())
    assert torch.equal(*results)


def test_options_with_a_number_per_parameter_follow_the_groups():
    ps = [torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16)) for _ in range(3)]
    options = [{"params": ps[:1], "initial_accumulated_decay": [0.25]}, {"params": ps[1:]}]
    options[1]["initial_accumulated_decay"] = [0.5, 0.75]
    optimizer = jitstep.AdamWBF16(options)
    optimizer.step_in_backward()
    optimizer.param_groups.reverse()
    ps[0].float().sum().backward()
    assert optimizer.state[ps[0]]["step"] == 1


def test_a_backward_may_start_at_a_gradient_edge():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0)
    optimizer.step_in_backward()
    for _ in range(2):
        torch.autograd.backward(torch.autograd.graph.get_gradient_edge(p.sum()))
    assert p[0] == -1


def test_an_error_leaves_steps_in_backward_as_they_were():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=1.0)
    optimizer.step_in_backward()
    optimizer.param_groups[0]["max_grad_norm"] = 1.0
    with pytest.raises(ValueError, match="max_grad_norm"):
        optimizer.step_in_backward()
    optimizer.param_groups[0]["max_grad_norm"] = 0.0
    q = torch.nn.Parameter(torch.ones(3))
    other = jitstep.SGD([q], lr=1.0)
    other.step_in_backward()
    with pytest.raises(ValueError, match="already"):
        optimizer.add_param_group({"params": [q]})
    assert len(optimizer.param_groups) == 1
    assert optimizer.steps_in_backward
    (p.sum() + q.sum()).backward()
    assert p[0] == q[0] == 0


def test_parameters_of_fully_sharded_data_parallel_are_refused():
    from torch.distributed.fsdp._flat_param import FlatParameter

    p = torch.nn.Parameter(torch.ones(3))
    p._is_flat_param = True
    assert isinstance(p, FlatParameter)
    optimizer = jitstep.SGD([p], lr=1.0)
    with pytest.raises(RuntimeError, match="FullyShardedDataParallel"):
        optimizer.step_in_backward()
    with pytest.raises(RuntimeError, match="FullyShardedDataParallel"):
        jitstep.GradAccumulator([p])
    p.sum().backward()
    optimizer.step()
    assert p[0] == 0


def test_steps_in_backward_divide_by_the_scale_and_refuse_to_skip():
    def trained(in_backward):
        p = torch.nn.Parameter(torch.ones(3))
        optimizer = jitstep.SGD([p], lr=1.0)
        optimizer.grad_scale = torch.tensor(2.0)
        if in_backward:
            optimizer.step_in_backward()
        (p * torch.arange(3.0)).sum().backward()
        optimizer.step()
        return p.detach(), optimizer

    p, optimizer = trained(True)
    assert torch.equal(p, trained(False)[0])
    optimizer.grad_scale = None
    optimizer.found_inf = torch.tensor(1.0)
    (p,) = optimizer.param_groups[0]["params"]
    before = p.detach().clone()
    with pytest.raises(RuntimeError, match="found_inf"):
        p.sum().backward()
    assert torch.equal(p, before)


def test_parameters_that_share_memory_are_not_stepped_in_backward():
    base = torch.ones(6)
    optimizer = jitstep.SGD([torch.nn.Parameter(base[:4]), torch.nn.Parameter(base[2:])], lr=0.1)
    with pytest.raises(ValueError, match="parameters 0 and 1 share memory"):
        optimizer.step_in_backward()
    assert not optimizer.steps_in_backward


@pytest.mark.parametrize("name", ["step", "exp_avg"])
def test_parameters_that_share_state_are_not_stepped_in_backward(name):
    p, q = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
    optimizer = jitstep.Adam([p, q], lr=0.1)
    optimizer.step_in_backward()
    (p.sum() + q.sum()).backward()
    own = optimizer.state[q][name]
    optimizer.state[q][name] = optimizer.state[p][name]
    with pytest.raises(ValueError, match=f"{name} is a tensor of parameter"):
        (p.sum() + q.sum()).backward()
    optimizer.state[q][name] = own
    p.grad = q.grad = None
    (p.sum() + q.sum()).backward()
    assert optimizer.state[q]["step"] == 2


def test_frozen_parameters_may_share_memory_while_others_step_in_backward():
    base = torch.ones(6)
    frozen = [torch.nn.Parameter(base[a:b], requires_grad=False) for a, b in ((0, 4), (2, 6))]
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([*frozen, p], lr=1.0)
    optimizer.step_in_backward()
    p.sum().backward()
    assert torch.equal(p.detach(), torch.zeros(3))


@pytest.fixture
def swaps():
    """Conversions of modules swap their parameters, which keeps no hooks."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(before)


def test_a_swap_of_parameters_that_step_in_backward_is_an_error_until_they_do_not(swaps):
    net = torch.nn.Linear(3, 2)
    optimizer = jitstep.SGD(net.parameters(), lr=1.0)
    optimizer.step_in_backward()
    with pytest.raises(RuntimeError):
        net.double()
    optimizer.step_in_backward(False)
    net.double()
    optimizer.step_in_backward()
    before = net.bias.detach().clone()
    net(torch.ones(3).double()).sum().backward()
    assert torch.equal(net.bias, before - 1)
    assert net.bias.grad is None


def test_a_new_accumulator_sums_gradients_of_swapped_parameters(swaps):
    net = torch.nn.Linear(3, 2)
    jitstep.GradAccumulator(net.parameters()).close()
    net.double()
    sums = jitstep.GradAccumulator(net.parameters())
    net(torch.ones(3).double()).sum().backward()
    assert sums.micro_batches == 1
