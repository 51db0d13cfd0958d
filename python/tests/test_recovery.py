"""Mistakes, and odd changes of parameters, state and groups. Each is an error or a warning, and training goes on."""

import numpy as np
import pytest
import torch
from training import parameter

import jitstep


def steps(optimizer, *parameters, count=1):
    for _ in range(count):
        for p in parameters:
            p.grad = torch.ones_like(p)
        optimizer.step()


@pytest.mark.parametrize("state", ["fp32", "int8"])
def test_a_step_number_that_becomes_0_in_place_is_a_warning(state):
    p = parameter(4096)
    optimizer = jitstep.Adam([p], lr=1.0, state=state)
    steps(optimizer, p, count=3)
    optimizer.state[p]["step"].zero_()
    with pytest.warns(UserWarning, match="the values of exp_avg.* have no effect"):
        steps(optimizer, p)
    assert optimizer.state[p]["step"] == 1
    steps(optimizer, p)  # without a warning


def test_extra_bits_of_weights_at_step_0_are_a_warning():
    p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = jitstep.AdamW([p], lr=1e-4, weights="master")
    steps(optimizer, p, count=3)
    optimizer.state[p]["step"].zero_()
    with pytest.warns(UserWarning, match="residual"):
        steps(optimizer, p)


def test_a_step_number_that_becomes_negative_in_place_is_an_error_that_names_the_parameter():
    p, q = parameter(3), parameter(3)
    optimizer = jitstep.Adam([p, q])
    steps(optimizer, p, q)
    optimizer.state[q]["step"].fill_(-5.0)
    with pytest.raises(ValueError, match=r"parameter 1.*step is -5"):
        steps(optimizer, p, q)
    optimizer.state[q]["step"].fill_(1.0)
    steps(optimizer, p, q)
    assert optimizer.state[p]["step"] == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_a_step_number_that_is_no_number_of_steps_is_an_error(value):
    p = parameter(3)
    optimizer = jitstep.Adam([p])
    steps(optimizer, p)
    optimizer.state[p]["step"] = torch.tensor(value, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"parameter 0.*step is"):
        steps(optimizer, p)


@pytest.mark.parametrize("options", [{"weights": "stochastic"}, {"state": "int4_rank1"}])
def test_steps_are_counted_beyond_the_whole_numbers_of_float32(options):
    def trained(dtype):
        p = torch.nn.Parameter(torch.ones(64, 64, dtype=torch.bfloat16))
        optimizer = jitstep.AdamW([p], lr=1e-3, min_quantized_size=0, **options)
        steps(optimizer, p)
        optimizer.state[p]["step"] = torch.tensor(2.0**24 - 2, dtype=dtype)
        steps(optimizer, p, count=5)
        return p.detach(), optimizer.state[p]["step"]

    (p, step), (q, wanted) = trained(torch.float32), trained(torch.float64)
    assert step == wanted == 2**24 + 3
    assert torch.equal(p, q)


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse, torch.Tensor.to_mkldnn])
def test_a_sparse_parameter_is_an_error_that_names_it(make):
    p, q = parameter(3), torch.nn.Parameter(make(torch.eye(3)))
    optimizer = jitstep.SGD([p, q])
    p.grad, q.grad = torch.ones(3), make(torch.eye(3))
    with pytest.raises(ValueError, match=r"parameter 1.*layout"):
        optimizer.step()
    assert torch.equal(p, torch.zeros(3))


# An overflow in the statistics would make every later root impossible.
def test_shampoo_continues_after_a_gradient_that_overflows():
    p = torch.nn.Parameter(torch.ones(3, 3))
    optimizer = jitstep.Shampoo([p], lr=0.1, precondition_frequency=2)
    steps(optimizer, p, count=2)
    p.grad = torch.full_like(p, 1e30)
    optimizer.step()
    steps(optimizer, p, count=3)
    assert optimizer.state[p]["step"] == 6
    assert p.isfinite().all()


def scaled_step(optimizer, scaler, p):
    optimizer.zero_grad()
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)


def test_a_step_of_a_scaler_may_be_repeated_after_an_error():
    p = parameter(1)
    optimizer = jitstep.ScheduleFreeSGD([p], lr=1.0, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.eval()
    with pytest.raises(RuntimeError, match="evaluation mode"):
        scaled_step(optimizer, scaler, p)
    optimizer.train()
    scaler.step(optimizer)
    assert optimizer.value(p, "z") == -1
    assert p.grad == 1


def test_a_scale_of_the_program_stays_after_an_error():
    p = parameter(1)
    optimizer = jitstep.ScheduleFreeSGD([p], lr=1.0, fused=True)
    optimizer.grad_scale = torch.tensor(4.0)
    optimizer.eval()
    p.grad = torch.full((1,), 4.0)
    with pytest.raises(RuntimeError):
        optimizer.step()
    optimizer.train()
    optimizer.step()
    assert optimizer.value(p, "z") == -1


@pytest.mark.parametrize("state", ["fp32", "int8"])
def test_state_of_another_shape_is_an_error_also_with_as_many_elements(state):
    p = parameter(64, 128)
    optimizer = jitstep.AdamW([p], state=state)
    steps(optimizer, p)
    p.data = torch.zeros(128, 64)
    with pytest.raises(ValueError, match=r"shape \[64, 128\].*\[128, 64\].*del optimizer.state"):
        steps(optimizer, p)
    del optimizer.state[p]
    steps(optimizer, p)
    assert optimizer.state[p]["step"] == 1


def test_the_residual_of_another_shape_is_an_error():
    p = parameter(64, 128, dtype=torch.bfloat16)
    optimizer = jitstep.SGD([p], lr=0.1, weights="split16")
    steps(optimizer, p)
    p.data = p.data.reshape(128, 64)
    with pytest.raises(ValueError, match=r"shape \[64, 128\]"):
        steps(optimizer, p)


def test_state_that_is_no_tensor_is_an_error():
    p = parameter(3)
    optimizer = jitstep.SGD([p], lr=1.0, momentum=1.0)
    steps(optimizer, p)
    optimizer.state[p]["momentum_buffer"] = np.full(3, 10.0, "float32")
    with pytest.raises(ValueError, match="momentum_buffer is a ndarray"):
        steps(optimizer, p)
    optimizer.state[p]["momentum_buffer"] = torch.full((3,), 10.0)
    steps(optimizer, p)
    assert optimizer.state[p]["momentum_buffer"][0] == 11


def test_a_group_that_is_refused_keeps_the_state_of_its_parameters():
    p, q = parameter(3), parameter(3)
    optimizer = jitstep.Adam([{"params": [p]}, {"params": [q]}])
    steps(optimizer, p, q)
    group = optimizer.param_groups.pop()
    with pytest.raises(ValueError):
        optimizer.add_param_group({**group, "lr": -1.0})
    optimizer.add_param_group(group)
    steps(optimizer, p, q)
    assert optimizer.state[q]["step"] == 2


def test_a_parameter_without_a_gradient_may_have_state_of_an_earlier_form():
    p, q = parameter(3), parameter(3)
    optimizer = jitstep.Adam([p, q])
    steps(optimizer, p, q)
    p.grad, p.data = None, torch.zeros(5)
    q.data = q.data.clone()
    optimizer.step()
    assert optimizer.state[q]["step"] == 2
    with pytest.raises(ValueError, match="parameter 0"):
        steps(optimizer, p, q)


def test_a_parameter_that_was_quantized_after_its_training_does_not_stop_checkpoints():
    p, q = parameter(3), parameter(3)
    optimizer = jitstep.Adam([p, q])
    steps(optimizer, p, q)
    p.grad = None
    p.requires_grad_(False)
    p.data = torch.zeros(3, dtype=torch.int8)
    optimizer.load_state_dict(optimizer.state_dict())
    assert list(optimizer.export()["state"]) == [1]
    steps(optimizer, q)
    assert optimizer.state[q]["step"] == 3 - 1


def test_an_option_that_a_group_lacks_has_its_default():
    p, q = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    optimizer = jitstep.SGD([{"params": [p], "weight_decay": 0.5}], lr=1.0)
    p.grad = torch.zeros(1)
    optimizer.step()
    optimizer.param_groups[0] = {"params": [q], "lr": 1.0}
    q.grad = torch.zeros(1)
    optimizer.step()
    assert q == 1


@pytest.mark.parametrize("module", [torch.optim, jitstep])
def test_a_gradient_that_torch_only_marks_as_zero_is_a_gradient(module):
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = module.SGD([p], lr=1.0, weight_decay=0.5)
    for _ in range(2):
        p.grad = torch._efficientzerotensor((3,))
        optimizer.step()
        p.grad = torch.zeros(3)
        optimizer.step()
    assert p[0] == 0.5**4


def test_a_differentiable_group_is_refused():
    with pytest.raises(RuntimeError, match="differentiable"):
        jitstep.SGD([{"params": [parameter(3)], "differentiable": True}], lr=1.0)


def test_a_parameter_whose_memory_was_freed_is_named():
    params = [parameter(3), parameter(4)]
    optimizer = jitstep.AdamW(params)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    params[1].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"parameter 1 .*no memory"):
        optimizer.step()


def test_a_group_that_becomes_differentiable_is_refused():
    p = parameter(3)
    optimizer = jitstep.Adam([p])
    with pytest.raises(RuntimeError, match="differentiable"):
        optimizer.load_state_dict(torch.optim.Adam([p], differentiable=True).state_dict())
    p.grad = torch.ones(3)
    optimizer.step()
    optimizer.param_groups[0]["differentiable"] = True
    with pytest.raises(RuntimeError, match="differentiable"):
        optimizer.step()
    optimizer.param_groups[0]["differentiable"] = False
    optimizer.step()


@pytest.mark.parametrize(
    ("name", "value"), [("state", torch.bfloat16), ("weights", torch.float32), ("state", {"exp_avg": torch.int8})]
)
def test_a_format_that_is_set_later_and_is_no_name_is_named(name, value):
    p = parameter(3)
    optimizer = jitstep.AdamW([p])
    p.grad = torch.ones(3)
    optimizer.param_groups[0][name] = value
    with pytest.raises(TypeError, match=f"{name}.* is torch.*name of a format"):
        optimizer.step()
    optimizer.param_groups[0][name] = None
    optimizer.step()


def test_sparse_gradients_need_an_eps():
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = jitstep.Adagrad(embedding.parameters(), eps=0.0)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"parameter 0.*eps"):
        optimizer.step()


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_sparse_gradients_are_steps_of_the_whole_parameter(weight_decay):
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    q = torch.nn.Parameter(embedding.weight.detach().clone())
    optimizers = [jitstep.Adagrad(ps, weight_decay=weight_decay) for ps in (embedding.parameters(), [q])]
    for _ in range(3):
        embedding(torch.tensor([1, 1, 3])).square().sum().backward()
        q.grad = embedding.weight.grad.to_dense()
        for optimizer in optimizers:
            optimizer.step()
        embedding.zero_grad()
        assert torch.equal(embedding.weight, q)
