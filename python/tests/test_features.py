"""What the C++ front end has, too: steps in backward(), tuning, weights in float32, reports."""

import copy
import gc
import re
import subprocess
import sys

import pytest
import torch
from test_reports import _environment
from training import assert_close, closure_loss, make, same, saved, train

import jitstep

# ---- decoupled weight decay


def test_adam_with_decoupled_weight_decay_is_adamw():
    nets = [make(), make(), make()]
    options = {"lr": 1e-2, "weight_decay": 0.1}
    train(nets[0], torch.optim.Adam(nets[0].parameters(), decoupled_weight_decay=True, **options), 5)
    ours = jitstep.Adam(nets[1].parameters(), decoupled_weight_decay=True, **options)
    train(nets[1], ours, 5)
    train(nets[2], jitstep.AdamW(nets[2].parameters(), **options), 5)
    assert_close(nets[0], nets[1])
    assert same(nets[1], nets[2])
    assert ours.kernels()[0].name.startswith("adamw_")


def test_groups_may_differ_in_decoupled_weight_decay_and_change_it():
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        groups = [
            {"params": net[0].parameters(), "decoupled_weight_decay": True},
            {"params": net[2].parameters()},
        ]
        optimizer = module.Adam(groups, lr=1e-2, weight_decay=0.1)
        train(net, optimizer, 3)
        optimizer.param_groups[0]["decoupled_weight_decay"] = False
        optimizer.param_groups[1]["decoupled_weight_decay"] = True
        train(net, optimizer, 3, seed=4)
        nets.append(net)
    assert_close(*nets)


@pytest.mark.parametrize("name", ["NAdam", "RAdam"])
def test_decoupled_weight_decay_follows_torch(name):
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        train(net, getattr(module, name)(net.parameters(), weight_decay=0.1, decoupled_weight_decay=True), 5)
        nets.append(net)
    assert_close(*nets)


def test_adamw_decouples_the_decay_of_a_checkpoint_of_adam_as_torchs_does():
    saved_by_adam = torch.optim.Adam(make().parameters()).state_dict()
    for module in (torch.optim, jitstep):
        optimizer = module.AdamW(make().parameters())
        optimizer.load_state_dict(saved_by_adam)
        assert optimizer.param_groups[0]["decoupled_weight_decay"] is True
    optimizer = jitstep.Adam(make().parameters())
    optimizer.load_state_dict(saved_by_adam)
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is False


def test_a_decoupled_adam_is_exchanged_with_torch():
    a, b = make(), make()
    theirs = torch.optim.Adam(a.parameters(), weight_decay=0.1, decoupled_weight_decay=True)
    train(a, theirs, 3)
    b.load_state_dict(a.state_dict())
    ours = jitstep.Adam(b.parameters())
    ours.load_state_dict(saved(theirs.state_dict()))
    train(a, theirs, 3, seed=4)
    train(b, ours, 3, seed=4)
    assert_close(a, b)
    torch.optim.Adam(a.parameters()).load_state_dict(saved(ours.export()))


# ---- state and weights


def test_init_state_creates_state_without_a_step():
    a, b = make(), make()
    first = jitstep.AdamW(a.parameters(), state="int8", min_quantized_size=512)
    first.init_state()
    assert all(held["step"] == 0 for held in first.state.values())
    assert len(first.state) == 4
    second = jitstep.AdamW(b.parameters(), state="int8", min_quantized_size=512)
    train(a, first, 3)
    train(b, second, 3)
    assert same(a, b)


@pytest.mark.parametrize("rule", ["sgd", "muon", "adafactor", "prodigy", "adagrad"])
def test_initial_state_changes_no_step(rule):
    nets = []
    for early in (False, True):
        net = make()
        options = {"momentum": 0.9} if rule == "sgd" else {}
        optimizer = jitstep.Optimizer(rule, [p for p in net.parameters() if p.dim() == 2], **options)
        if early:
            optimizer.init_state()
            optimizer.load_state_dict(saved(optimizer.state_dict()))
        train(net, optimizer, 3)
        nets.append(net)
    assert same(*nets)


def test_a_fresh_distributed_checkpoint_counts_no_step():
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    optimizer.init_state()
    held = get_optimizer_state_dict(net, optimizer)["state"]
    assert all(entries["step"] == 0 for entries in held.values())


def float32_twin(net, optimizer):
    """Float32 parameters that take each of the optimizer's steps, with the same gradients."""
    twin = [torch.nn.Parameter(p.detach().float()) for p in net.parameters()]
    other = jitstep.AdamW(twin, lr=optimizer.param_groups[0]["lr"])

    def step_too(*_):
        for p, q in zip(net.parameters(), twin, strict=True):
            q.grad = p.grad.float()
        other.step()

    optimizer.register_step_pre_hook(step_too)
    return twin


@pytest.mark.parametrize("weights", jitstep.weight_formats())
def test_the_weights_in_float32_include_the_residual(weights):
    net = make(torch.bfloat16)
    optimizer = jitstep.AdamW(net.parameters(), weights=weights, lr=1e-4)
    assert torch.equal(optimizer.fp32_weights()[0], net[0].weight.float())
    twin = float32_twin(net, optimizer)
    train(net, optimizer, 5)
    before = copy.deepcopy(net)
    found = optimizer.fp32_weights()
    assert [w.dtype for w in found] == [torch.float32] * 4
    assert same(net, before)
    exact = all(torch.equal(w, p.float()) for w, p in zip(found, net.parameters(), strict=True))
    assert exact == (weights in ("native", "stochastic"))
    for w, p, q in zip(found, net.parameters(), twin, strict=True):
        torch.testing.assert_close(w, p.float(), rtol=2**-8, atol=1e-30)
        if weights in ("split16", "master"):
            assert torch.equal(w, q)
        elif not exact:  # a residual with a relative error of 2^-7 or less, in every step
            assert (w - q).norm() < 2**-14 * q.norm()


# ---- steps in backward()


@pytest.mark.parametrize("rule", ["adamw", "lamb", "adafactor", "muon", "sgd"])
def test_steps_in_backward_have_the_same_bits(rule):
    nets = []
    for in_backward in (False, True):
        net = make()
        parameters = [p for p in net.parameters() if p.dim() == 2] if rule == "muon" else net.parameters()
        formats = {"state": "int8", "min_quantized_size": 0} if rule in ("adamw", "lamb") else {}
        optimizer = jitstep.Optimizer(rule, parameters, **formats)
        optimizer.step_in_backward(in_backward)
        for step in range(4):
            closure_loss(net, step).backward()
            if in_backward:
                assert all(p.grad is None for group in optimizer.param_groups for p in group["params"])
            optimizer.step()
            optimizer.zero_grad()
        nets.append(net)
        assert optimizer.state[net[0].weight]["step"] == 4
        assert len(optimizer.kernels()) >= 1
    assert same(*nets)


def test_schedulers_and_checkpoints_work_with_steps_in_backward():
    nets = []
    for in_backward in (False, True):
        net = make()
        optimizer = jitstep.AdamW(net.parameters(), lr=1e-2)
        optimizer.step_in_backward(in_backward)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for step in range(4):
            closure_loss(net, step).backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            if step == 1:
                optimizer.load_state_dict(saved(optimizer.state_dict()))
        assert optimizer.steps_in_backward == in_backward
        nets.append(net)
    assert same(*nets)


def test_a_group_that_is_added_later_is_stepped_in_backward_too():
    net = make()
    optimizer = jitstep.SGD(net[0].parameters(), lr=0.1)
    optimizer.step_in_backward()
    optimizer.add_param_group({"params": net[2].parameters()})
    before = net[2].weight.detach().clone()
    closure_loss(net, 1).backward()
    assert net[2].weight.grad is None
    assert not torch.equal(net[2].weight, before)


@pytest.mark.parametrize("options", [{"max_grad_norm": 1.0}, {"rule": "prodigy"}])
def test_what_needs_all_gradients_is_refused_in_backward(options):
    net = make()
    optimizer = jitstep.Optimizer(**{"rule": "adamw", "params": net.parameters(), **options})
    with pytest.raises(ValueError, match="needs all gradients at once"):
        optimizer.step_in_backward()
    closure_loss(net, 1).backward()
    assert net[0].weight.grad is not None
    optimizer.step()


def test_a_gradient_has_one_consumer():
    net = make()
    optimizer = jitstep.SGD(net.parameters(), lr=0.1)
    optimizer.step_in_backward()
    with pytest.raises(ValueError, match="already go to an optimizer that steps in backward"):
        jitstep.GradAccumulator(net.parameters())
    optimizer.step_in_backward(False)
    jitstep.GradAccumulator(net.parameters())
    closure_loss(net, 1).backward()
    assert net[0].weight.grad is not None


def test_a_deleted_optimizer_leaves_gradients_alone():
    net = make()
    optimizer = jitstep.SGD(net.parameters(), lr=0.1)
    optimizer.step_in_backward()
    del optimizer
    gc.collect()
    closure_loss(net, 1).backward()
    assert net[0].weight.grad is not None


def test_a_scaler_is_refused_with_steps_in_backward():
    net = make()
    optimizer = jitstep.SGD(net.parameters(), lr=0.1, fused=True)
    optimizer.step_in_backward()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(closure_loss(net, 1)).backward()
    with pytest.raises(RuntimeError, match="GradScaler"):
        scaler.step(optimizer)


# ---- tuning and reports

TUNE = """
import torch, jitstep
p = torch.nn.Parameter(torch.zeros(30_000)); q = torch.nn.Parameter(torch.zeros(30_000))
tuned, plain = jitstep.SGD([p], lr=0.1), jitstep.SGD([q], lr=0.1)
tuned.tune(progress=False)
for step in range(2000):
    p.grad = q.grad = torch.full((30_000,), 0.5)
    tuned.step(); plain.step()
    tried, candidates = tuned.tuning_progress()
    if candidates and tried == candidates:
        break
print("equal", torch.equal(p, q), "done", tried == candidates > 0)
"""


def test_steps_tune_kernels_without_a_change_of_results(tmp_path):
    environment = dict(_environment(), JITSTEP_CACHE_DIR=str(tmp_path))
    run = subprocess.run([sys.executable, "-c", TUNE], env=environment, capture_output=True, text=True)
    assert run.stdout == "equal True done True\n", run.stderr
    assert "sgd" in (tmp_path / "tuning.jsonl").read_text()


def test_reports_are_tables_in_notebooks():
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=512)
    train(net, optimizer, 1)
    kernels, memory = optimizer.kernels(), optimizer.memory_report()
    assert len(re.findall("<tr>", kernels._repr_html_())) == 3
    assert "adamw_int8_float32" in kernels._repr_html_()
    assert "adamw_int8_float32" in str(kernels)
    assert f"{memory.total:,}" in memory._repr_html_()


def test_compile_makes_the_kernels_and_shows_a_bar(capsys):
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="bf16", min_quantized_size=0)
    optimizer.compile(progress=True)
    assert "jitstep compiles" in capsys.readouterr().err
    assert not optimizer.state
    optimizer.compile()
    assert capsys.readouterr().err == ""


def test_the_mode_is_a_property():
    optimizer = jitstep.ScheduleFreeAdamW(make().parameters())
    assert optimizer.training
    optimizer.eval()
    assert not optimizer.training
    optimizer.train()
    assert optimizer.training


# ---- values of state


def test_a_value_before_the_first_step_is_an_error_that_says_so():
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = jitstep.AdamW([p])
    with pytest.raises(KeyError, match=r"no state.*yet.*init_state"):
        optimizer.value(p, "exp")
    optimizer.init_state()
    with pytest.raises(KeyError, match=r"no state 'exp'.*exp_avg, exp_avg_sq"):
        optimizer.value(p, "exp")


def test_a_list_has_one_number_for_each_parameter_of_its_group():
    a, b, c = (torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16)) for _ in range(3))
    groups = [
        {"params": [a], "initial_accumulated_decay": [1e-3]},
        {"params": [b, c], "initial_accumulated_decay": [2e-3, 3e-3]},
    ]
    optimizer = jitstep.AdamWBF16(groups)
    for p in (a, b, c):
        p.grad = torch.ones_like(p)
    optimizer.step()
    decays = [float(optimizer.state[p]["accumulated_decay"]) for p in (a, b, c)]
    assert decays == [1e-3, 2e-3, 3e-3]
    with pytest.raises(ValueError, match="initial_accumulated_decay"):
        jitstep.AdamWBF16([b, c], initial_accumulated_decay=[1e-3])
    more = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    with pytest.raises(ValueError, match="initial_accumulated_decay"):
        optimizer.add_param_group({"params": more, "initial_accumulated_decay": [1e-3]})
    assert len(optimizer.param_groups) == 2
