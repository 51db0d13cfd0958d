"""Parameters and gradients that share memory."""

import pytest
import torch

import jitstep


def test_views_of_one_tensor_may_not_overlap():
    def accepts(*views):
        parameters = [torch.nn.Parameter(view) for view in views]
        optimizer = jitstep.SGD(parameters, lr=1.0)
        for p in parameters:
            p.grad = torch.ones_like(p)
        try:
            optimizer.step()
        except ValueError as error:
            assert "parameters 0 and 1" in str(error)
            return False
        return True

    base = torch.zeros(64, 8)
    assert accepts(base[:, :4], base[:, 4:])
    assert not accepts(base[:, :5], base[:, 4:])
    assert accepts(base[::2], base[1::2])
    flat = torch.zeros(64)
    assert accepts(flat[:32], flat[32:])
    assert not accepts(flat[:33], flat[32:])
    assert not accepts(base[:, 3], base[3])


@pytest.mark.parametrize("tables", ["new", "used", "moved"])
def test_a_gradient_in_the_memory_of_a_parameter_is_refused(tables):
    """A step would write to the parameter while it reads the gradient."""

    def refuses(gradient, other=None):
        """Whether a step refuses gradient(p, q) of p, where q is the next parameter."""
        p, q = (torch.nn.Parameter(torch.ones(4, 4)) for _ in range(2))
        optimizer = jitstep.AdamW([p, q], lr=0.1)
        if tables != "new":
            p.grad, q.grad = torch.ones(4, 4), torch.ones(4, 4)
            optimizer.step()
        if tables == "moved":
            p.data, q.data = p.data.clone(), q.data.clone()
        p.grad, q.grad = gradient(p.data, q.data), other
        before = p.detach().clone(), q.detach().clone()
        try:
            optimizer.step()
        except ValueError as error:
            assert "the gradient of parameter 0 shares memory" in str(error)
            assert torch.equal(p, before[0]) and torch.equal(q, before[1])
            with pytest.raises(ValueError):
                optimizer.step()
            p.grad = p.grad.clone()
            optimizer.step()
            return True
        return False

    ones = torch.ones(4, 4)
    assert refuses(lambda p, q: q, ones)
    assert refuses(lambda p, q: p.t())
    assert refuses(lambda p, q: p[:1].expand(4, 4))
    assert refuses(lambda p, q: q.flatten().as_strided((4, 4), (1, 1)), ones)
    assert not refuses(lambda p, q: p), "each element is read before it is written"
    assert not refuses(lambda p, q: torch.ones(4, 4))
    both = torch.ones(8, 4)
    assert not refuses(lambda p, q: both[:4], both[4:])


def test_gradients_may_lie_between_the_elements_of_parameters():
    base = torch.zeros(8, 8)
    p = torch.nn.Parameter(base[:, ::2])
    optimizer = jitstep.SGD([p], lr=1.0)
    p.grad = base[:, 1::2]
    for _ in range(2):
        base[:, 1::2] = 1
        optimizer.step()
    assert torch.equal(p, torch.full((8, 4), -2.0))


def test_a_gradient_in_the_memory_that_a_parameter_left_is_used():
    p, q = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    optimizer = jitstep.SGD([p, q], lr=1.0)
    p.grad, q.grad = torch.ones(4), torch.ones(4)
    optimizer.step()
    left = q.data
    q.data = torch.ones(4)
    p.grad = left.fill_(3.0)
    optimizer.step()
    assert torch.equal(p, torch.full((4,), -3.0))
    q.data = left
    with pytest.raises(ValueError, match="shares memory"):
        optimizer.step()


def test_a_parameter_without_a_gradient_may_lend_its_memory():
    """Offloading frees the memory of a layer that is not trained now, and others' gradients may get it."""
    p, q = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    optimizer = jitstep.SGD([p, q], lr=1.0)
    p.grad, q.grad = torch.ones(4), torch.ones(4)
    optimizer.step()
    lent, q.grad, q.data = q.data, None, torch.full((4,), 5.0)
    p.grad = lent.fill_(2.0)
    for _ in range(2):
        optimizer.step()
    assert torch.equal(p, torch.full((4,), -4.0))
    q.data = lent
    optimizer.step()
    q.grad = torch.ones(4)
    with pytest.raises(ValueError, match="the gradient of parameter 0 shares memory with parameter 1"):
        optimizer.step()
