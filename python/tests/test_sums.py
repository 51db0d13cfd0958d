"""Sums of the gradients of micro-batches, in GradAccumulator."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from training import closure_loss, make, same

import jitstep


def micro_gradients(net, count):
    found = []
    for micro in range(count):
        closure_loss(net, micro).backward()
        found.append([p.grad.clone() for p in net.parameters()])
        net.zero_grad()
    return found


@pytest.mark.parametrize("limit", [0, 1 << 28])
def test_a_float32_sum_is_that_of_torch(limit):
    net = make()
    reference = [torch.stack(grads).sum(0) for grads in zip(*micro_gradients(net, 3), strict=True)]
    sums = jitstep.GradAccumulator(net.parameters(), dtype=torch.float32, max_waiting_bytes=limit)
    for _ in range(2):
        for micro in range(3):
            closure_loss(net, micro).backward()
            assert all(p.grad is None for p in net.parameters())
        assert sums.micro_batches == 3
        sums.assign_gradients()
        assert sums.micro_batches == 0
        for p, wanted in zip(net.parameters(), reference, strict=True):
            torch.testing.assert_close(p.grad, wanted)
        net.zero_grad()


def test_a_bfloat16_sum_keeps_small_gradients_on_average():
    p = torch.nn.Parameter(torch.zeros(20_000))
    results = {}
    for rounding in ("nearest", "stochastic"):
        sums = jitstep.GradAccumulator([p], rounding=rounding)
        (p * 1.0).sum().backward()
        for _ in range(64):
            (p * 1e-3).sum().backward()
        sums.assign_gradients()
        assert p.grad.dtype == torch.bfloat16
        results[rounding] = p.grad.float().mean().item()
        sums.close()
        p.grad = None
    assert results["nearest"] == 1.0
    assert results["stochastic"] == pytest.approx(1.064, abs=2e-3)


def check_means(found, gradients):
    """Each of 4 additions has at most an error of an ulp of a bfloat16, relative to the sum of magnitudes."""
    for mean, terms in zip(found, zip(*gradients, strict=True), strict=True):
        exact = torch.stack(terms)
        assert mean.dtype == torch.bfloat16
        assert ((mean.float() - exact.mean(0)).abs() <= 4 * 2**-7 * exact.abs().mean(0)).all()


def test_sums_repeat_bit_for_bit_and_are_stepped_in_their_dtype():
    nets = []
    for _ in range(2):
        net = make()
        sums = jitstep.GradAccumulator(net.parameters(), seed=5, mean=True)
        optimizer = jitstep.SGD(net.parameters(), lr=1.0)
        for step in range(3):
            for micro in range(4):
                closure_loss(net, 4 * step + micro).backward()
            sums.assign_gradients()
            if step == 0:
                check_means([p.grad for p in net.parameters()], micro_gradients(make(), 4))
            wanted = [p.detach() - p.grad.float() for p in net.parameters()]
            optimizer.step()
            assert all(map(torch.equal, net.parameters(), wanted))
            optimizer.zero_grad()
        nets.append(net)
    assert same(*nets)


def test_a_nested_backward_belongs_to_the_outer_micro_batch():
    net = make()
    sums = jitstep.GradAccumulator(net.parameters(), dtype=torch.float32, mean=True)
    for _ in range(2):
        x = torch.ones(4, 64, requires_grad=True)
        out = checkpoint(net[0], x, use_reentrant=True)
        checkpoint(net[2], out.tanh(), use_reentrant=True).pow(2).mean().backward()
    assert sums.micro_batches == 2
    sums.assign_gradients()
    plain = make()
    plain(torch.ones(4, 64)).pow(2).mean().backward()
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_a_gradient_that_the_program_holds_is_not_overwritten():
    net = make()
    sums = jitstep.GradAccumulator(net.parameters(), dtype=torch.float32)
    closure_loss(net, 1).backward()
    sums.assign_gradients()
    held = net[0].weight.grad
    before = held.clone()
    net.zero_grad()
    closure_loss(net, 2).backward()
    assert torch.equal(held, before)


def test_a_sparse_gradient_is_refused_and_changes_no_sum():
    table = torch.nn.Embedding(10, 4, sparse=True)
    sums = jitstep.GradAccumulator(table.parameters())
    with pytest.raises(RuntimeError, match=r"sparse gradient of parameter 0"):
        table(torch.tensor([1])).sum().backward()
    assert table.weight.grad.is_sparse
    sums.assign_gradients()
    assert table.weight.grad.is_sparse


@pytest.mark.parametrize(
    "arguments",
    [
        {"dtype": torch.float16},
        {"rounding": "up"},
        {"max_waiting_bytes": -1},
        {"max_waiting_bytes": None},
        {"max_waiting_bytes": float("nan")},
        {"seed": "a"},
        {"seed": -1},
    ],
    ids=str,
)
def test_wrong_arguments_of_sums_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        jitstep.GradAccumulator(make().parameters(), **arguments)


def test_sums_take_named_parameters():
    net = make()
    sums = jitstep.GradAccumulator(net.named_parameters(), dtype=torch.float32)
    closure_loss(net, 1).backward()
    assert net[0].weight.grad is None
    sums.assign_gradients()
    assert net[0].weight.grad.any()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (torch.nn.Parameter(torch.ones(2)), "iterable of Tensors, not torch.FloatTensor"),
        (3, "iterable of Tensors, not int"),
        (["weight"], "parameter 0 is a str"),
        ([{"params": []}], "parameter 0 is a dict"),
    ],
)
def test_other_things_than_parameters_are_refused_by_name(parameters, words):
    with pytest.raises(TypeError, match=f"GradAccumulator: .*{words}"):
        jitstep.GradAccumulator(parameters)


def test_reset_forgets_the_gradients_of_an_addition_that_failed():
    p = torch.nn.Parameter(torch.zeros(4))
    table = torch.nn.Embedding(3, 2, sparse=True)
    sums = jitstep.GradAccumulator([p, table.weight], dtype=torch.float32)
    with pytest.raises(RuntimeError, match="parameter 1"):
        (p.sum() + table(torch.tensor([0, 2])).sum()).backward()
    sums.reset()
    assert p.grad is None
    assert table.weight.grad is None
    p.sum().backward()
    sums.assign_gradients()
    assert torch.equal(p.grad, torch.ones(4))


def test_close_leaves_parameters_as_they_were():
    p = torch.nn.Parameter(torch.ones(3))
    before = getattr(p, "grad_dtype", None)
    sums = jitstep.GradAccumulator([p])
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(p.sum()))
    sums.assign_gradients()
    p.grad = None
    sums.close()
    assert getattr(p, "grad_dtype", None) == before


@pytest.mark.parametrize("left", ["cleared", "of another parameter", "of the same parameter"])
def test_a_backward_that_fails_counts_only_if_its_gradients_stay(left):
    p, q = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    sums = jitstep.GradAccumulator([p, q], dtype=torch.float32, mean=True)
    fails = [True]

    def loss():
        def hook(grad):
            if fails[0]:
                raise RuntimeError("no")

        middle = (q * 2).sum()
        middle.register_hook(hook)
        return middle + (p * 2).sum()  # the gradient of p comes first

    with pytest.raises(RuntimeError, match="no"):
        loss().backward()
    assert p.grad is not None
    assert q.grad is None
    fails[0] = False
    if left == "cleared":
        p.grad = None
        loss().backward()
    elif left == "of another parameter":
        (q * 2).sum().backward()
    else:
        loss().backward()
    count = 1 if left == "cleared" else 2
    assert sums.micro_batches == count
    sums.assign_gradients()
    assert torch.equal(p.grad, torch.full((3,), 1.0 if left == "of another parameter" else 2.0))
    assert torch.equal(q.grad, torch.full((3,), 2.0 / count))
