"""Checkpoints: plain data, resumed bit for bit, exchanged with torch, converted between formats."""

import copy
import warnings

import pytest
import torch
from training import assert_close, make, resumed, same, saved, train

import jitstep

TORCH_CLASSES = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
]  # fmt: skip


def options_of(name):
    return {"momentum": 0.9} if name == "SGD" else {}


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_a_checkpoint_of_torch_continues(name):
    a, b = make(), make()
    theirs = getattr(torch.optim, name)(a.parameters(), **options_of(name))
    train(a, theirs, 5)
    b.load_state_dict(a.state_dict())
    ours = getattr(jitstep, name)(b.parameters(), **options_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.load_state_dict(saved(theirs.state_dict()))
    train(a, theirs, 5, seed=3)
    train(b, ours, 5, seed=3)
    assert_close(a, b)


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_torch_continues_an_exported_checkpoint(name):
    a, b = make(), make()
    ours = getattr(jitstep, name)(a.parameters(), **options_of(name))
    train(a, ours, 5)
    b.load_state_dict(a.state_dict())
    theirs = getattr(torch.optim, name)(b.parameters(), **options_of(name))
    theirs.load_state_dict(saved(ours.export()))
    train(a, ours, 5, seed=3)
    train(b, theirs, 5, seed=3)
    assert_close(a, b)


def test_muons_checkpoints_are_exchanged_with_torch():
    def matrices(net):
        return [p for p in net.parameters() if p.dim() == 2]

    for first, second in ((torch.optim.Muon, jitstep.Muon), (jitstep.Muon, torch.optim.Muon)):
        a, b = make(), make()
        one = first(matrices(a))
        train(a, one, 3)
        b.load_state_dict(a.state_dict())
        other = second(matrices(b))
        other.load_state_dict(saved(one.export() if hasattr(one, "export") else one.state_dict()))
        train(a, one, 3, seed=3)
        train(b, other, 3, seed=3)
        assert_close(a, b, rtol=1e-3, atol=1e-4)


def adamw(**formats):
    return lambda net: jitstep.AdamW(net.parameters(), min_quantized_size=0, **formats)


STATES = [*jitstep.codecs(), {"exp_avg": "int4", "exp_avg_sq": "int8"}]


@pytest.mark.parametrize("state", STATES, ids=str)
def test_every_state_format_resumes_bit_for_bit(state):
    net, make_optimizer = make(), adamw(state=state)
    optimizer = make_optimizer(net)
    train(net, optimizer, 5)
    copy_of, other = resumed(net, optimizer, make_optimizer)
    train(net, optimizer, 3, seed=5)
    train(copy_of, other, 3, seed=5)
    assert same(net, copy_of)


@pytest.mark.parametrize("weights", jitstep.weight_formats())
def test_every_weight_format_resumes_bit_for_bit(weights):
    net, make_optimizer = make(torch.bfloat16), adamw(weights=weights, seed=7)
    optimizer = make_optimizer(net)
    train(net, optimizer, 5)
    copy_of, other = resumed(net, optimizer, make_optimizer)
    train(net, optimizer, 3, seed=5)
    train(copy_of, other, 3, seed=5)
    assert same(net, copy_of)


@pytest.mark.parametrize("rule", ["prodigy", "schedulefree_adamw", "adafactor", "came", "novograd", "dadapt_adam"])
def test_auxiliary_and_shared_state_resume_bit_for_bit(rule):
    def make_optimizer(net):
        return jitstep.Optimizer(rule, net.parameters())

    net = make()
    optimizer = make_optimizer(net)
    train(net, optimizer, 4)
    copy_of, other = resumed(net, optimizer, make_optimizer)
    train(net, optimizer, 3, seed=5)
    train(copy_of, other, 3, seed=5)
    assert same(net, copy_of)


def test_an_odd_and_an_even_number_of_steps_resume():
    for steps in (1, 2):
        net = make()
        optimizer = jitstep.Adafactor(net.parameters())
        train(net, optimizer, steps)
        copy_of, other = resumed(net, optimizer, lambda one: jitstep.Adafactor(one.parameters()))
        train(net, optimizer, 2, seed=5)
        train(copy_of, other, 2, seed=5)
        assert same(net, copy_of)


def test_the_mode_is_saved():
    net = make()
    optimizer = jitstep.ScheduleFreeAdamW(net.parameters())
    train(net, optimizer, 3)
    optimizer.eval()
    copy_of, other = resumed(net, optimizer, lambda one: jitstep.ScheduleFreeAdamW(one.parameters()))
    with pytest.raises(RuntimeError, match="evaluation mode"):
        other.step()
    optimizer.train()
    other.train()
    assert same(net, copy_of)


@pytest.mark.parametrize(("own", "loaded"), [(None, 7), (0, 7), (3, 7), (3, None)])
def test_random_bits_continue_with_the_seed_of_the_checkpoint(own, loaded):
    a, b = make(torch.bfloat16), make(torch.bfloat16)
    first = jitstep.AdamW(a.parameters(), weights="stochastic", seed=own)
    second = jitstep.AdamW(b.parameters(), weights="stochastic", seed=loaded)
    train(a, first, 2)
    b.load_state_dict(a.state_dict())
    second.load_state_dict(saved(first.state_dict()))
    train(a, first, 2, seed=5)
    train(b, second, 2, seed=5)
    assert same(a, b)


def test_options_and_seed_come_from_the_checkpoint_and_formats_from_the_optimizer():
    a, b = make(), make()
    first = jitstep.AdamW(a.parameters(), lr=0.5, seed=9, state="int8")
    second = jitstep.AdamW(b.parameters(), max_grad_norm=1.0)
    second.load_state_dict(saved(first.state_dict()))
    group = second.param_groups[0]
    assert (group["lr"], group["seed"], group["state"]) == (0.5, 9, None)
    theirs = torch.optim.AdamW(a.parameters(), lr=0.25)
    third = jitstep.AdamW(b.parameters(), max_grad_norm=1.0)
    third.load_state_dict(saved(theirs.state_dict()))
    assert (third.param_groups[0]["lr"], third.param_groups[0]["max_grad_norm"]) == (0.25, 1.0)


@pytest.mark.parametrize(("saver", "loader"), [("Adam", "AdamW"), ("AdamW", "Adam")])
@pytest.mark.parametrize("package", ["jitstep", "torch"])
def test_adam_and_adamw_load_each_others_checkpoints_as_torch_does(saver, loader, package):
    options = {"lr": 0.05, "weight_decay": 0.2, "eps": 1e-3}
    nets = [make(), make()]
    source = torch.optim if package == "torch" else jitstep
    for net, of_saver, of_loader in zip(nets, (torch.optim, source), (torch.optim, jitstep), strict=True):
        optimizer = getattr(of_saver, saver)(net.parameters(), **options)
        train(net, optimizer, 3)
        other = getattr(of_loader, loader)(net.parameters())
        other.load_state_dict(saved(optimizer.state_dict()))
        assert other.param_groups[0]["decoupled_weight_decay"]
        assert other.param_groups[0]["eps"] == 1e-3
        train(net, other, 3)
    assert_close(*nets)


def test_a_checkpoint_holds_no_more_than_its_state():
    net = make()
    optimizer = jitstep.Adafactor(net.parameters())
    train(net, optimizer, 2)
    states = optimizer.state_dict()["state"].values()
    tensors = [value for one in states for value in one.values() if isinstance(value, torch.Tensor)]
    assert len(tensors) > len(states) > 0
    for value in tensors:
        assert value.untyped_storage().nbytes() == value.numel() * value.element_size()


def test_a_checkpoint_of_another_rule_or_version_is_refused_and_changes_nothing():
    net = make()
    lion, ours = jitstep.Lion(net.parameters()), jitstep.AdamW(net.parameters())
    train(net, lion, 1)
    train(net, ours, 2)
    before = copy.deepcopy(ours.state_dict())
    with pytest.raises(ValueError, match="is of lion, and this optimizer is adamw"):
        ours.load_state_dict(lion.state_dict())
    newer = copy.deepcopy(before)
    newer["param_groups"][0]["schema"] = 2
    with pytest.raises(ValueError, match="Install a newer jitstep"):
        ours.load_state_dict(newer)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        ours.load_state_dict({"state": {}, "param_groups": []})
    assert torch.equal(ours.state_dict()["state"][0]["exp_avg"], before["state"][0]["exp_avg"])


def test_a_damaged_checkpoint_is_refused_and_changes_nothing():
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=0)
    train(net, optimizer, 2)
    good = copy.deepcopy(optimizer.state_dict())
    short, other, lost = (copy.deepcopy(good) for _ in range(3))
    short["state"][0]["exp_avg.codes"] = short["state"][0]["exp_avg.codes"][:100]
    other["state"][0] = {"step": torch.tensor(2.0), "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}
    lost["state"][0] = {"step": torch.tensor(2.0)}
    for damaged, said in ((short, "100 of 8192 bytes"), (other, "has the shape"), (lost, "none of the state")):
        with pytest.raises(ValueError, match=said):
            optimizer.load_state_dict(damaged)
    after = optimizer.state_dict()["state"][0]
    assert all(torch.equal(after[k], v) for k, v in good["state"][0].items() if isinstance(v, torch.Tensor))


def stepped(make_optimizer, steps=3):
    p = torch.nn.Parameter(torch.linspace(-1, 1, 64).reshape(8, 8))
    optimizer = make_optimizer([p])
    for _ in range(steps):
        p.grad = torch.full_like(p, 0.5)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("source", "into", "options", "without", "lacks"),
    [
        (torch.optim.Adam, jitstep.Adamax, {}, "none", "exp_inf"),
        (torch.optim.Adam, jitstep.NAdam, {}, "none", "mu_product"),
        (torch.optim.Adam, jitstep.Adam, {}, "exp_avg_sq", "exp_avg_sq"),
        (jitstep.AdamW, jitstep.AdamW, {"state": "int8"}, "exp_avg_sq", "exp_avg_sq"),
        (jitstep.AdamW, jitstep.AdamW, {"state": "int8"}, "exp_avg.format", "exp_avg"),
        (jitstep.AdamW, jitstep.AdamW, {"state": "factored"}, "exp_avg_sq.row", "exp_avg_sq.row"),
        (jitstep.Adafactor, jitstep.Adafactor, {}, "col_var", "col_var"),
        (jitstep.SOAP, jitstep.SOAP, {}, "Q_1", "Q_1"),
    ],
)
def test_a_checkpoint_with_a_part_of_the_state_is_refused_and_changes_nothing(source, into, options, without, lacks):
    formats = {"min_quantized_size": 0, **options} if options else {}
    packed = copy.deepcopy(stepped(lambda ps: source(ps, **formats)).state_dict())
    held = packed["state"][0]
    for key in [key for key in held if key == without or key.startswith(f"{without}.")]:
        del held[key]
    optimizer = into([torch.nn.Parameter(torch.ones(8, 8))], lr=0.125, **formats)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=rf"parameter 0, which has taken 3 steps\. It lacks {lacks}\."):
        optimizer.load_state_dict(packed)
    assert optimizer.state_dict()["state"].keys() == before["state"].keys()
    assert optimizer.param_groups[0]["lr"] == 0.125


@pytest.mark.parametrize(
    ("name", "options"),
    [("Adam", {"amsgrad": True}), ("RMSprop", {"momentum": 0.9}), ("RMSprop", {"centered": True})],
)
def test_state_of_an_option_that_is_switched_on_later_may_be_missing(name, options):
    source = stepped(getattr(torch.optim, name))
    source.param_groups[0].update(options)
    optimizer = getattr(jitstep, name)([torch.nn.Parameter(torch.ones(8, 8))])
    optimizer.load_state_dict(copy.deepcopy(source.state_dict()))
    assert all(optimizer.param_groups[0][option] == value for option, value in options.items())
    before = stepped(getattr(torch.optim, name))
    other = getattr(jitstep, name)([torch.nn.Parameter(torch.ones(8, 8))])
    other.load_state_dict(copy.deepcopy(before.state_dict()))
    other.param_groups[0].update(options)
    parameters = [one.param_groups[0]["params"][0] for one in (optimizer, other)]
    for p, one in zip(parameters, (optimizer, other), strict=True):
        p.grad = torch.full_like(p, 0.5)
        one.step()
    assert parameters[0].isfinite().all()
    assert torch.equal(*parameters)


def test_hooks_of_checkpoints_are_called():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    calls = []
    optimizer.register_load_state_dict_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_load_state_dict_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda *_: calls.append("saved"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["saved", "before", "after"]


def test_only_rules_of_torch_are_exported():
    with pytest.raises(TypeError, match=r"torch\.optim has no LAMB"):
        jitstep.LAMB(make().parameters()).export()


def test_distributed_checkpoints_resume_bit_for_bit(tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    def make_optimizer(net):
        return jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=512)

    a, b = make(), make()
    first, second = make_optimizer(a), make_optimizer(b)
    train(a, first, 4)
    dcp.save({"o": get_optimizer_state_dict(a, first)}, checkpoint_id=str(tmp_path))
    b.load_state_dict(a.state_dict())
    into = {"o": get_optimizer_state_dict(b, second)}
    b.load_state_dict(a.state_dict())
    dcp.load(into, checkpoint_id=str(tmp_path))
    set_optimizer_state_dict(b, second, into["o"])
    train(a, first, 3, seed=5)
    train(b, second, 3, seed=5)
    assert same(a, b)


def test_a_hook_may_put_anything_into_the_state():
    optimizer = jitstep.AdamW(make().parameters())

    def hook(one):
        one.state["test"] = 1

    optimizer.register_state_dict_pre_hook(hook)
    assert optimizer.state_dict()["state"]["test"] == 1


def stepped_state_of_torch():
    p = torch.nn.Parameter(torch.linspace(-1, 1, 64))
    reference = torch.optim.AdamW([p], lr=0.01)
    for _ in range(30):
        p.grad = torch.full_like(p, 0.5)
        reference.step()
    return p, reference


def test_the_number_of_steps_may_be_in_the_group_as_apex_has_it():
    p, reference = stepped_state_of_torch()
    saved = copy.deepcopy(reference.state_dict())
    del saved["state"][0]["step"]
    saved["param_groups"][0]["step"] = 30
    q = torch.nn.Parameter(p.detach().clone())
    optimizer = jitstep.AdamW([q], lr=0.01)
    optimizer.load_state_dict(saved)
    p.grad = q.grad = torch.full_like(p, -0.25)
    reference.step()
    optimizer.step()
    assert optimizer.state[q]["step"] == 31
    torch.testing.assert_close(q, p)


def test_state_of_torch_without_a_number_of_steps_is_refused_and_changes_nothing():
    p, reference = stepped_state_of_torch()
    saved = copy.deepcopy(reference.state_dict())
    del saved["state"][0]["step"]
    optimizer = jitstep.AdamW([torch.nn.Parameter(p.detach().clone())], lr=0.02)
    with pytest.raises(ValueError, match="step"):
        optimizer.load_state_dict(saved)
    assert not optimizer.state
    assert optimizer.param_groups[0]["lr"] == 0.02


@pytest.mark.parametrize("value", [{}, {"codec": "int8"}, None])
def test_a_format_that_is_no_text_is_refused_and_changes_nothing(value):
    p = torch.nn.Parameter(torch.linspace(-1, 1, 64))
    optimizer = jitstep.AdamW([p], state="int8", min_quantized_size=0)
    p.grad = torch.ones_like(p)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    before = optimizer.state[p]["exp_avg.codes"].clone()
    saved["state"][0]["exp_avg.format"] = value
    with pytest.raises(ValueError, match=r"exp_avg\.format"):
        optimizer.load_state_dict(saved)
    assert torch.equal(optimizer.state[p]["exp_avg.codes"], before)
