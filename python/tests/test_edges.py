"""Rules at the edges of their options and gradients, where their originals are exact."""

import warnings

import pytest
import torch

import jitstep


def stepped(optimizer, p, gradients):
    for gradient in gradients:
        p.grad = torch.as_tensor(gradient, dtype=p.dtype)
        optimizer.step()
    return p.detach()


def test_a_nan_of_adafactor_stays_in_its_element_as_in_torch():
    results = []
    for cls in (jitstep.Adafactor, torch.optim.Adafactor):
        p = torch.nn.Parameter(torch.ones(4))
        results.append(stepped(cls([p], lr=0.01, eps=(1e-30, 1e-3)), p, [[1.0, 0, 2, -1]]))
    torch.testing.assert_close(*results, equal_nan=True)
    assert results[0].isnan().tolist() == [False, True, False, False]


# Centralization makes such gradients 0. A difference in rounding would be divided by itself.
@pytest.mark.parametrize("sizes", [(64, 1), (16, 1, 1, 1), (16, 32)])
def test_rows_of_equal_gradients_do_not_move_ranger21(sizes):
    p = torch.nn.Parameter(torch.zeros(sizes))
    rows = torch.randn((sizes[0], *[1] * (len(sizes) - 1)), generator=torch.Generator().manual_seed(1))
    assert not stepped(jitstep.Ranger21([p], lr=1e-3), p, [rows.expand(sizes)] * 2).any()


@pytest.mark.parametrize("name", ["NorMuon", "AdaMuon"])
def test_the_eps_of_the_second_moment_is_no_bound_of_the_iteration(name):
    # The iteration normalizes both, unless a bound of their norm prevents it.
    moves = []
    for scale in (1.0, 1e-6):
        p = torch.nn.Parameter(torch.zeros(8, 6, dtype=torch.float64))
        options = {"sign": False} if name == "AdaMuon" else {}
        optimizer = getattr(jitstep, name)([p], lr=1, eps=1e-2, ns_eps=1e-20, ns_dtype="real", **options)
        gradient = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        moves.append(stepped(optimizer, p, [scale * gradient]))
    torch.testing.assert_close(*moves, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["Prodigy", "DAdaptAdam"])
def test_a_gradient_that_is_not_finite_leaves_the_step_size(name):
    p = torch.nn.Parameter(torch.ones(19))
    optimizer = getattr(jitstep, name)([p])
    for step in range(10):
        p.grad = torch.randn(19, generator=torch.Generator().manual_seed(step))
        if step == 5:
            p.grad[3] = torch.nan
        optimizer.step()
    assert p.isnan().sum() == 1
    d = optimizer.state_dict()["param_groups"][0]["shared_state"]["d"]
    assert 0 < d < 1


@pytest.mark.parametrize("name", ["Prodigy", "DAdaptAdam"])
def test_a_rate_of_0_changes_neither_parameters_nor_state(name):
    p, q = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5))
    optimizer, other = getattr(jitstep, name)([p]), getattr(jitstep, name)([q])
    gradients = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)).unbind()
    for step, gradient in enumerate(gradients):
        for group in optimizer.param_groups:
            group["lr"] = 1.0 if step % 2 else 0.0
        stepped(optimizer, p, [gradient])
        if step % 2:
            stepped(other, q, [gradient])
    assert torch.equal(p, q)
    for name in ("exp_avg", "exp_avg_sq", "s"):
        assert torch.equal(optimizer.state[p][name], other.state[q][name])


def test_madgrad_without_eps_keeps_elements_without_gradient():
    p = torch.nn.Parameter(torch.ones(4))
    made = stepped(jitstep.MADGRAD([p], eps=0.0), p, 3 * [[0.0, 1.0, -2.0, 0.0]])
    assert made[0] == made[3] == 1
    assert made.isfinite().all() and made[1] < 1 < made[2]


def test_a_rate_that_requires_a_gradient_is_a_number_without_a_warning():
    p = torch.nn.Parameter(torch.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = jitstep.SGD([p], lr=torch.tensor(0.5, requires_grad=True))
        assert stepped(optimizer, p, [[1.0, 1.0, 2.0]]).tolist() == [0.5, 0.5, 0.0]


def test_a_hessian_that_is_not_a_number_shows():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.Sophia([p], lr=0.1)
    optimizer.set_input(p, "hessian", torch.tensor([1.0, torch.nan, 1.0]))
    assert stepped(optimizer, p, [[1.0, 1.0, 1.0]]).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize(("name", "value"), [("lr", 0.2), ("warmup_steps", 3), ("r", 1.0), ("weight_lr_power", 1.0)])
def test_groups_of_schedule_free_optimizers_share_their_weights(name, value):
    p, q = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5))
    groups = [{"params": [p]}, {"params": [q], name: value, "weight_decay": 0.1}]
    optimizer = jitstep.ScheduleFreeAdamW(groups, lr=0.1)
    p.grad, q.grad = torch.ones(5), torch.ones(5)
    with pytest.raises(ValueError, match=f"different {name} "):
        optimizer.step()
    assert torch.equal(p, torch.ones(5))
    optimizer.param_groups[1][name] = optimizer.param_groups[0][name]
    optimizer.step()
    q.grad = None
    optimizer.param_groups[1][name] = value
    optimizer.step()


@pytest.mark.parametrize(
    ("name", "value"),
    [("betas", (0.9, 0.99)), ("beta3", 0.5), ("d0", 1e-5), ("d_coef", 2.0), ("growth_rate", 1.5)],
)
def test_groups_of_prodigy_share_what_its_step_size_depends_on(name, value):
    p, q = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5))
    optimizer = jitstep.Prodigy([{"params": [p]}, {"params": [q], name: value}])
    p.grad, q.grad = torch.ones(5), torch.ones(5)
    with pytest.raises(ValueError, match=f"different {name} "):
        optimizer.step()
    assert torch.equal(p, torch.ones(5))
    optimizer.param_groups[0][name] = value
    optimizer.step()


@pytest.mark.parametrize("cls", [jitstep.Prodigy, jitstep.DAdaptAdam])
def test_groups_with_one_step_size_may_have_other_learning_rates(cls):
    p, q = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5))
    optimizer = cls([{"params": [p]}, {"params": [q], "lr": 0.5, "weight_decay": 0.1, "eps": 1e-6}])
    for _ in range(3):
        p.grad, q.grad = torch.ones(5), torch.ones(5)
        optimizer.step()
    assert torch.equal(optimizer.value(p, "s") > 0, torch.ones(5, dtype=torch.bool))
    assert (p < 1).all() and (q < 1).all() and (p < q).all()


def test_a_warm_up_of_a_fraction_of_a_step_is_a_step():
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = jitstep.ScheduleFreeSGD([p], lr=1.0, warmup_steps=1.5)
    stepped(optimizer, p, [[1.0]])
    assert optimizer.value(p, "z").item() == pytest.approx(1 - 1 / 1.5)
    stepped(optimizer, p, [[1.0]])
    assert optimizer.value(p, "z").item() == pytest.approx(1 - 1 / 1.5 - 2 / 1.5)


def test_fp32_weights_of_complex_parameters_are_complex():
    p = torch.nn.Parameter(torch.tensor([1 + 2j]))
    (weights,) = jitstep.SGD([p], lr=0.1).fp32_weights()
    assert torch.equal(weights, p.detach())


def test_a_frozen_parameter_is_not_compiled():
    frozen = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16), requires_grad=False)
    elsewhere = torch.nn.Parameter(torch.ones(4, device="meta"), requires_grad=False)
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = jitstep.SGD([frozen, elsewhere, p], lr=0.1)
    optimizer.compile(progress=False)
    assert [report.parameters for report in optimizer.kernels()] == [[2]]


def test_an_interrupted_load_changes_nothing(monkeypatch):
    p = torch.nn.Parameter(torch.ones(300, 300))
    optimizer, other = jitstep.AdamW([p], lr=0.1, state="int8"), jitstep.AdamW([p], lr=0.2)
    stepped(optimizer, p, [torch.ones(300, 300)])
    stepped(other, p, [torch.ones(300, 300)])
    before = optimizer.state[p]["exp_avg.codes"].clone()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(jitstep.state, "convert_loaded", interrupt)
    with pytest.raises(KeyboardInterrupt):
        optimizer.load_state_dict(other.state_dict())
    monkeypatch.undo()
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert torch.equal(optimizer.state[p]["exp_avg.codes"], before)
