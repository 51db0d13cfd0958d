"""Any layout of parameters and gradients: strides, gaps, complex, negated and sparse ones."""

import pytest
import torch
from training import assert_close, make, same, train

import jitstep
from jitstep import _core


@pytest.mark.parametrize("form", ["transposed", "gaps", "scalar", "empty", "channels_last"])
def test_any_layout_follows_torch(form):
    def parameter():
        torch.manual_seed(3)
        base = torch.randn(16, 8, 3, 3)
        made = {
            "transposed": base.reshape(128, 9).t(),
            "gaps": base.reshape(128, 9)[:, ::2],
            "scalar": base[0, 0, 0, 0],
            "empty": base[:0],
            "channels_last": base.contiguous(memory_format=torch.channels_last),
        }[form]
        return torch.nn.Parameter(made.detach())

    results = []
    for module in (torch.optim, jitstep):
        p = parameter()
        optimizer = module.AdamW([p])
        for step in range(3):
            p.grad = torch.full_like(p, step - 0.5)
            optimizer.step()
        results.append(p.detach())
        assert optimizer.state[p]["exp_avg"].shape == p.shape
    torch.testing.assert_close(*results)


def test_gradients_may_have_other_strides_than_the_parameter():
    p = torch.nn.Parameter(torch.zeros(4, 6))
    q = torch.nn.Parameter(torch.zeros(4, 6))
    grad = torch.arange(24.0).reshape(6, 4).t()
    for module, one in ((torch.optim, p), (jitstep, q)):
        one.grad = grad
        module.SGD([one], lr=0.1).step()
    assert torch.equal(p, q)


def test_complex_parameters_follow_torch():
    results = []
    for module in (torch.optim, jitstep):
        torch.manual_seed(1)
        p = torch.nn.Parameter(torch.randn(20, 3, dtype=torch.complex64))
        optimizer = module.AdamW([p])
        for _ in range(3):
            p.grad = torch.randn(20, 3, dtype=torch.complex64)
            optimizer.step()
        results.append(p.detach())
    torch.testing.assert_close(*results)


def test_lazy_conjugates_and_negatives_are_applied_in_every_step():
    p = torch.nn.Parameter(torch.zeros(4, dtype=torch.complex64))
    q = torch.nn.Parameter(torch.zeros(4))
    optimizer = jitstep.SGD([p, q], lr=1.0)
    values = torch.full((4,), 1 + 2j, dtype=torch.complex64)
    for step in range(1, 4):
        p.grad = values.conj() if step > 1 else values.conj().resolve_conj()
        q.grad = values.conj().imag if step > 1 else torch.full((4,), -2.0)
        optimizer.step()
        assert torch.equal(p.detach(), -step * values.conj())
        assert torch.equal(q.detach(), torch.full((4,), 2.0 * step))


@pytest.mark.parametrize("shape", [(1,), (4,)])
def test_a_negative_with_the_form_of_the_last_gradient_is_applied(shape):
    p = torch.nn.Parameter(torch.zeros(shape))
    optimizer = jitstep.SGD([p], lr=1.0)
    values = torch.full(shape, 1 + 2j, dtype=torch.complex64)
    for step in range(1, 4):
        p.grad = values.conj().imag if step > 1 else values.imag
        optimizer.step()
    assert torch.equal(p.detach(), torch.full(shape, 2.0))


def test_sparse_gradients_of_sgd_follow_torch():
    tables = []
    for module in (torch.optim, jitstep):
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 4, sparse=True)
        optimizer = module.SGD(table.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([1, 3, 3])).pow(2).sum().backward()
            optimizer.step()
            assert table.weight.grad.is_sparse
        tables.append(table)
    assert_close(*tables)


def test_tensors_are_read_without_the_exchange_api_too():
    nets = []
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    for used in (capsule, None):
        _core.use_exchange(used)
        try:
            net = make()
            train(net, jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=512), 3)
            complex_p = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
            complex_p.grad = torch.ones_like(complex_p)
            jitstep.SGD([complex_p], lr=0.5).step()
            assert torch.equal(complex_p.detach(), torch.full_like(complex_p, 0.5).detach())
        finally:
            _core.use_exchange(capsule)
        nets.append(net)
    assert same(*nets)
