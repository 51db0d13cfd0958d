"""State that gets another form at its address, or another number of steps, between steps."""

import warnings

import pytest
import torch

import jitstep
from jitstep import _core


def made(optimizer_class, *sizes, **options):
    p = torch.nn.Parameter(torch.arange(1.0, 1 + torch.Size(sizes).numel()).reshape(sizes))
    p.grad = torch.linspace(-1, 1, p.numel()).reshape(sizes)
    return p, optimizer_class([p], lr=0.1, **options)


@pytest.fixture(params=[True, False], ids=["exchange", "attributes"])
def reader(request):
    """Both ways to read tensors."""
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    _core.use_exchange(capsule if request.param else None)
    yield
    _core.use_exchange(capsule)


def test_a_buffer_that_shrinks_at_its_address_is_an_error_that_writes_nothing(reader):
    pool = torch.zeros(64)
    p, optimizer = made(jitstep.SGD, 4, 4, momentum=0.9)
    optimizer.step()
    held = optimizer.state[p]["momentum_buffer"]
    held.data = pool[:16].view(4, 4)
    optimizer.step()
    held.data = pool[:4].view(2, 2)
    before, weights = pool.clone(), p.detach().clone()
    with pytest.raises(ValueError, match="parameter 0"):
        optimizer.step()
    assert torch.equal(pool, before)
    assert torch.equal(p, weights)


CHANGES = {
    "transposed": lambda held: held.t_(),
    "one_row": lambda held: setattr(held, "data", held.data[:1].expand(3, 3)),
    "integers": lambda held: setattr(held, "data", held.data.view(torch.int32)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_buffer_of_another_form_at_its_address_has_its_new_values(change, reader):
    p, optimizer = made(jitstep.SGD, 3, 3, momentum=0.9)
    optimizer.step()
    held = optimizer.state[p]["momentum_buffer"]
    CHANGES[change](held)
    wanted = 0.9 * held.float() + p.grad
    optimizer.step()
    torch.testing.assert_close(optimizer.value(p, "momentum_buffer"), wanted)


def test_auxiliary_state_in_other_memory_is_read_by_the_next_step():
    found = []
    for module in (torch.optim, jitstep):
        p, optimizer = made(module.Adafactor, 4, 3)
        for value in (2.0, 3.0, 4.0):
            optimizer.step()
            optimizer.state[p]["row_var"].data = torch.full((4, 1), value)
        optimizer.step()
        found.append((p.detach(), optimizer.state[p]["row_var"]))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_number_that_is_set_to_0_is_a_warning(steps):
    p, optimizer = made(jitstep.AdamW, 8)
    for _ in range(steps):
        optimizer.step()
    optimizer.state[p]["step"].zero_()
    with pytest.warns(UserWarning, match="no effect"):
        optimizer.step()
    assert optimizer.state[p]["step"] == 1


def test_values_that_are_set_after_a_skipped_first_step_are_a_warning():
    p, optimizer = made(jitstep.AdamW, 8)
    optimizer.found_inf = torch.tensor(1.0)
    optimizer.step()
    del optimizer.found_inf
    optimizer.state[p]["exp_avg"].fill_(5.0)
    with pytest.warns(UserWarning, match="no effect"):
        optimizer.step()
    assert optimizer.state[p]["step"] == 1


def test_a_first_step_that_follows_a_skipped_one_is_no_warning():
    p, optimizer = made(jitstep.AdamW, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for found_inf in (1.0, 1.0, 0.0):
            optimizer.found_inf = torch.tensor(found_inf)
            optimizer.step()
    assert optimizer.state[p]["step"] == 1
