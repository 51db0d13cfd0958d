"""A small network, and how tests train it."""

import io
from typing import Any

import torch


def make(dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64))
    return net.to(dtype)


def parameter(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(*sizes, dtype=dtype))


def train(model, optimizer, steps, seed=2, scheduler=None, scaler=None) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 64, generator=generator).to(next(model.parameters()).dtype)
        optimizer.zero_grad()
        loss = (model(x) - x.sin()).pow(2).mean()
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return losses


def closure_loss(net, seed) -> torch.Tensor:
    """The loss of one batch."""
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(seed))
    return (net(x) - x.sin()).pow(2).mean()


def same(a, b) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def assert_close(a, b, rtol=2e-5, atol=2e-6) -> None:
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=rtol, atol=atol)


# The elements of a codec's block, and the largest error of one rounding, as a share of the block's largest magnitude.
CODECS = {"fp32": (1, 0.0), "bf16": (1, 2**-8), "fp8": (256, 2**-4), "int8": (256, 2**-7), "int4": (128, 2**-3)}


def assert_stored(found: torch.Tensor, wanted: torch.Tensor, codec: str) -> None:
    """The values are the wanted ones, rounded to a codec once."""
    block, error = CODECS[codec]
    assert found.shape == wanted.shape
    both = torch.stack([found.detach().flatten().double(), wanted.detach().flatten().double()])
    count = -(-wanted.numel() // block)
    rounded, exact = torch.nn.functional.pad(both, (0, count * block - wanted.numel())).reshape(2, count, block)
    off, allowed = (rounded - exact).abs().amax(1), error * exact.abs().amax(1)
    assert (off <= allowed).all(), f"off by {off.max()} in {codec}"


def saved(thing: Any) -> Any:
    """Written to a file and read again, as a checkpoint that is not trusted."""
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def resumed(model, optimizer, make_optimizer):
    """A copy of a network and its optimizer, through a checkpoint."""
    weights, state = saved((model.state_dict(), optimizer.state_dict()))
    copy = make(next(model.parameters()).dtype)
    copy.load_state_dict(weights)
    other = make_optimizer(copy)
    other.load_state_dict(state)
    return copy, other
