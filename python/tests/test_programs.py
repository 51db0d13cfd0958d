"""Whole programs, written for torch.optim, with only the namespace changed. Their losses agree with torch's."""

import copy

import pytest
import torch
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.optim import lr_scheduler as schedulers
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint
from training import assert_close, assert_stored, make, same, saved, train

import jitstep

# ---- programs: each takes the module of optimizers, and returns losses


class Gpt(torch.nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.embed = torch.nn.Embedding(32, 16)
        self.place = torch.nn.Parameter(torch.zeros(12, 16))
        layer = lambda: torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)  # noqa: E731
        self.layers = torch.nn.ModuleList([layer(), layer()])
        self.head = torch.nn.Linear(16, 32, bias=False)
        self.head.weight = self.embed.weight  # tied
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embed(tokens) + self.place
        mask = torch.nn.Transformer.generate_square_subsequent_mask(12)
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=False) if self.checkpointed else layer(x, mask)
        return self.head(x)


def gpt(optim, checkpointed=False):
    torch.manual_seed(0)
    model = Gpt(checkpointed)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    warmup = schedulers.LinearLR(optimizer, 0.1, total_iters=3)
    cosine = schedulers.CosineAnnealingLR(optimizer, 12)
    scheduler = schedulers.SequentialLR(optimizer, [warmup, cosine], [3])
    losses = []
    for step in range(12):
        tokens = torch.randint(0, 32, (4, 13), generator=torch.Generator().manual_seed(step))
        loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def gpt_with_checkpointing(optim):
    return gpt(optim, checkpointed=True)


def gan(optim):
    torch.manual_seed(0)
    generator = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.LeakyReLU(0.2), torch.nn.Linear(32, 16))
    critic = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LeakyReLU(0.2), torch.nn.Linear(32, 1))
    optimizers = [optim.Adam(m.parameters(), lr=2e-3, betas=(0.5, 0.999)) for m in (generator, critic)]
    losses = []
    for step in range(10):
        noise = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        real = torch.ones(16, 16) * 0.3
        optimizers[1].zero_grad()
        loss = functional.softplus(-critic(real)).mean() + functional.softplus(critic(generator(noise).detach())).mean()
        loss.backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        fooled = functional.softplus(-critic(generator(noise))).mean()
        fooled.backward()
        optimizers[0].step()
        losses += [loss.item(), fooled.item()]
    return losses


def averaged_weights(optim):
    net = make()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    ema = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    swa = swa_utils.SWALR(optimizer, swa_lr=0.01, anneal_epochs=3)
    losses = []
    for step in range(8):
        losses += train(net, optimizer, 1, seed=step)
        ema.update_parameters(net)
        swa.step()
    x = torch.ones(2, 64)
    return [*losses, ema(x).pow(2).mean().item()]


def low_rank_adapters(optim):
    torch.manual_seed(0)
    net = make()
    for p in net.parameters():
        p.requires_grad_(False)
    a, b = torch.nn.Parameter(torch.randn(4, 64) / 8), torch.nn.Parameter(torch.zeros(128, 4))
    frozen = net[0]
    net[0] = torch.nn.Module()
    net[0].forward = lambda x: frozen(x) + x @ a.T @ b.T
    optimizer = optim.AdamW(
        [{"params": [a], "lr": 1e-3}, {"params": [b], "lr": 1.6e-2}, {"params": net[2].parameters()}]
    )
    return train(net, optimizer, 8)


def freezing_and_unfreezing(optim):
    net = make()
    optimizer = optim.AdamW(net.parameters(), lr=1e-2)
    losses = train(net, optimizer, 3)
    for p in net[0].parameters():
        p.requires_grad_(False)
        p.grad = None
    losses += train(net, optimizer, 3, seed=3)
    for p in net[0].parameters():
        p.requires_grad_(True)
    return losses + train(net, optimizer, 3, seed=4)


def a_layer_that_is_added_late(optim):
    net = make()
    optimizer = optim.RMSprop(net.parameters(), lr=1e-3)
    losses = train(net, optimizer, 3)
    torch.manual_seed(7)
    net.append(torch.nn.Linear(64, 64))
    optimizer.add_param_group({"params": net[3].parameters(), "lr": 5e-3})
    losses += train(net, optimizer, 3, seed=3)
    del optimizer.param_groups[0]["params"][1]  # a bias that is no longer trained
    return losses + train(net, optimizer, 3, seed=4)


def parametrized_layers(optim):
    torch.manual_seed(0)
    net = make()
    parametrizations.weight_norm(net[0])
    parametrizations.spectral_norm(net[2])

    class Symmetric(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    square = torch.nn.Linear(64, 64)
    parametrize.register_parametrization(square, "weight", Symmetric())
    net.append(square)
    return train(net, optim.NAdam(net.parameters(), lr=2e-3), 6)


def accumulated_gradients(optim):
    net, losses = make(), []
    optimizer = optim.Adagrad(net.parameters(), lr=1e-2)
    for step in range(9):
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(step))
        loss = net(x).pow(2).mean() / 3
        loss.backward()
        losses.append(loss.item())
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return losses


def a_second_order_penalty(optim):
    net = make()
    optimizer, losses = optim.Adam(net.parameters(), lr=1e-3), []
    for step in range(4):
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(step)).requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = (slope.norm(dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def a_copied_and_restored_optimizer(optim):
    net = make()
    optimizer = optim.RAdam(net.parameters(), lr=1e-2)
    losses = train(net, optimizer, 3)
    kept = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict())
    losses += train(net, optimizer, 3, seed=3)
    net.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    return losses + train(net, optimizer, 3, seed=4)


def mixed_precision_with_hooks(optim):
    net = make()
    optimizer, losses = optim.AdamW(net.parameters(), lr=1e-3, fused=True), []
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    norms = []
    optimizer.register_step_pre_hook(lambda *_: norms.append(len(norms)))
    for step in range(6):
        x = torch.randn(16, 64, generator=torch.Generator().manual_seed(step))
        with torch.autocast("cpu", torch.bfloat16):
            loss = (net(x).float() - x.sin()).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return [*losses, len(norms)]


PROGRAMS = [
    gpt, gpt_with_checkpointing, gan, averaged_weights, low_rank_adapters, freezing_and_unfreezing,
    a_layer_that_is_added_late, parametrized_layers, accumulated_gradients, a_second_order_penalty,
    a_copied_and_restored_optimizer, mixed_precision_with_hooks,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_has_the_losses_of_torch(program):
    assert program(jitstep) == pytest.approx(program(torch.optim), rel=2e-4)


# ---- another format in mid-training


def check_loaded(optimizer, previous, codec):
    """The state after 6 steps, rounded to a codec once."""
    for p in optimizer.param_groups[0]["params"]:
        assert optimizer.state[p]["step"] == 6
        for slot in ("exp_avg", "exp_avg_sq"):
            assert_stored(optimizer.value(p, slot), previous.value(p, slot), codec)


@pytest.mark.parametrize(("first", "second"), [("int8", "int4"), ("fp32", "int8"), ("int4", "bf16"), ("fp8", "fp32")])
def test_training_continues_in_another_format(first, second):
    nets, kept, optimizer = [], {}, None
    for formats in ((first, first), (first, second)):
        net = make()
        for part, state in enumerate(formats):
            previous, optimizer = optimizer, jitstep.AdamW(net.parameters(), state=state, min_quantized_size=512)
            if part:
                optimizer.load_state_dict(kept)
                check_loaded(optimizer, previous, "fp32" if first == state else state)
            losses = train(net, optimizer, 6, seed=part)
            kept = saved(optimizer.state_dict())
        nets.append((net, losses))
    assert nets[1][1][-1] == pytest.approx(nets[0][1][-1], rel=3e-2)
    assert_close(nets[0][0], nets[1][0], rtol=0.1, atol=1e-2)


# ---- other entry points of torch


def test_a_functional_program_may_use_meta_parameters():
    with torch.device("meta"):
        net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8")
    torch.__future__.set_swap_module_params_on_conversion(True)  # otherwise to_empty() makes other parameters
    try:
        net.to_empty(device="cpu")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    params = optimizer.param_groups[0]["params"]
    assert all(p is q for p, q in zip(params, net.parameters(), strict=True))
    other = make()
    net.load_state_dict(other.state_dict())
    train(net, optimizer, 1)
    train(other, jitstep.AdamW(other.parameters(), state="int8"), 1)
    assert same(net, other)
    assert not same(net, make())


@pytest.mark.parametrize(
    "arguments", [{"foreach": True}, {"foreach": False}, {"fused": True}, {"capturable": True}], ids=str
)
def test_flags_of_torch_change_no_result(arguments):
    nets = []
    for options in ({}, arguments):
        net = make()
        train(net, jitstep.Adam(net.parameters(), **options), 3)
        nets.append(net)
    assert all(torch.equal(p, q) for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


# ---- nothing is half changed after an error


def test_an_error_in_a_step_changes_nothing():
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), lr=1e-2)
    train(net, optimizer, 2)
    before = copy.deepcopy((net.state_dict(), optimizer.state_dict()))
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    group = optimizer.param_groups[0]
    for name, wrong, error, named in (
        ("lr", "fast", TypeError, "lr"),
        ("state", "int9", ValueError, "int9"),
        ("weights", "split9", ValueError, "split9"),
        ("betas", (0.9,), ValueError, "betas"),
    ):
        right, group[name] = group[name], wrong
        with pytest.raises(error, match=rf"\b{named}\b"):
            optimizer.step()
        group[name] = right
    after = optimizer.state_dict()
    for number, held in before[1]["state"].items():
        assert all(torch.equal(after["state"][number][name], value) for name, value in held.items())
    assert all(torch.equal(value, before[0][name]) for name, value in net.state_dict().items())
    optimizer.step()
