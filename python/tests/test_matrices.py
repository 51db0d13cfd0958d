"""Matrices of state: their memory, what transforms do with them, checkpoints and copies."""

import copy

import pytest
import torch

import jitstep

SHAPES = [(4, 3), (3,), (2, 2, 3)]


def parameters(dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in SHAPES]


def train(ps, optimizer, steps, first=1):
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        for p in ps:
            p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        optimizer.step()


def values(ps):
    return [p.detach().clone() for p in ps]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def soap(ps, **options):
    return jitstep.SOAP(ps, lr=0.02, precondition_frequency=2, **options)


def test_each_dimension_has_matrices_up_to_the_largest_side():
    ps = parameters()
    optimizer = soap(ps, max_precondition_dim=3)
    train(ps, optimizer, 1)
    names = [{name for name in optimizer.state[p] if name[:2] in ("GG", "Q_")} for p in ps]
    assert names == [{"GG_1", "Q_1"}, set(), {"GG_0", "Q_0", "GG_1", "Q_1", "GG_2", "Q_2"}]
    assert optimizer.state[ps[2]]["GG_2"].shape == (3, 3)
    (entry,) = (one for one in optimizer.memory_report().entries if one.name == "GG_1")
    assert (entry.tensors, entry.bytes) == (2, 4 * (9 + 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_checkpoint_continues_bit_for_bit(dtype):
    ps = parameters(dtype)
    optimizer = soap(ps)
    train(ps, optimizer, 5)
    restored = [p.detach().clone().requires_grad_() for p in ps]
    other = soap(restored)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert torch.equal(other.state[restored[0]]["Q_0"], optimizer.state[ps[0]]["Q_0"])
    assert other.state[restored[0]]["GG_0"].dtype == dtype
    train(ps, optimizer, 3, 6)
    train(restored, other, 3, 6)
    assert same(ps, restored)


def test_a_copy_has_its_own_matrices():
    ps = parameters()
    optimizer = soap(ps)
    train(ps, optimizer, 3)
    copied = copy.deepcopy(optimizer)
    before = [value.clone() for value in copied.state_dict()["state"][0].values() if isinstance(value, torch.Tensor)]
    train(ps, optimizer, 2, 4)
    after = [value for value in copied.state_dict()["state"][0].values() if isinstance(value, torch.Tensor)]
    assert same(before, after)


def test_another_largest_side_drops_matrices_and_starts_new_ones():
    ps = parameters()
    optimizer = soap(ps)
    train(ps, optimizer, 3)
    held = optimizer.state_dict()
    for group in held["param_groups"]:
        group["max_precondition_dim"] = 3
    optimizer.load_state_dict(held)
    train(ps, optimizer, 1, 4)
    assert "GG_0" not in optimizer.state[ps[0]]
    assert "GG_1" in optimizer.state[ps[0]]
    assert all(torch.isfinite(p).all() for p in ps)


def test_the_largest_side_may_change_between_steps():
    ps = parameters()
    optimizer = soap(ps)
    train(ps, optimizer, 3)
    optimizer.param_groups[0]["max_precondition_dim"] = 3
    train(ps, optimizer, 1, 4)
    assert "GG_0" not in optimizer.state[ps[0]] and "GG_1" in optimizer.state[ps[0]]
    optimizer.param_groups[0]["max_precondition_dim"] = 4
    train(ps, optimizer, 1, 5)
    assert "GG_0" in optimizer.state[ps[0]]


@pytest.mark.parametrize(
    ("cls", "before", "after"),
    [
        (jitstep.SOAP, {"precondition_1d": False}, {"precondition_1d": True}),
        (jitstep.SOAP, {"max_precondition_dim": 2}, {"max_precondition_dim": 9}),
        (jitstep.Shampoo, {"max_precondition_dim": 2}, {"max_precondition_dim": 9}),
    ],
)
def test_a_new_matrix_changes_nothing_until_it_is_computed(cls, before, after):
    ps, qs = parameters(), parameters()
    one, other = (cls(params, lr=0.02, precondition_frequency=10, **before) for params in (ps, qs))
    train(ps, one, 2)
    train(qs, other, 2)
    other.param_groups[0].update(after)
    train(ps, one, 7, 3)
    train(qs, other, 7, 3)
    for p, q in zip(ps, qs, strict=True):
        torch.testing.assert_close(p, q)
    assert sum(map(len, other.state.values())) > sum(map(len, one.state.values()))
    train(ps, one, 5, 10)
    train(qs, other, 5, 10)
    assert not all(torch.allclose(p, q) for p, q in zip(ps, qs, strict=True))
    assert all(q.isfinite().all() for q in qs)


def test_a_checkpoint_with_a_matrix_of_another_size_is_refused():
    ps = parameters()
    optimizer = soap(ps)
    train(ps, optimizer, 2)
    held = copy.deepcopy(optimizer.state_dict())
    held["state"][0]["GG_0"] = torch.zeros(2, 2)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match="GG_0"):
        optimizer.load_state_dict(held)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for number, entries in before["state"].items():
        assert after["state"][number].keys() == entries.keys()
        assert all(torch.equal(after["state"][number][k], v) for k, v in entries.items() if isinstance(v, torch.Tensor))


def test_a_skipped_step_changes_no_matrix():
    ps = parameters()
    optimizer = soap(ps)
    train(ps, optimizer, 2)
    before = optimizer.state[ps[0]]["GG_0"].clone()
    optimizer.found_inf = torch.ones(())
    train(ps, optimizer, 1, 3)
    assert torch.equal(optimizer.state[ps[0]]["GG_0"], before)
    optimizer.found_inf = torch.zeros(())
    train(ps, optimizer, 1, 3)
    assert not torch.equal(optimizer.state[ps[0]]["GG_0"], before)


MINE = """// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::with_matrix {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Transforms {
  real first;   // host: with_matrix_first
  real second;  // host: with_matrix_second
};
struct Matrices {
  Matrix<1, 0> cross;  // initial: 2
};
struct Rule {
  KHD static real first(const auto& e, const auto&) { return e.g; }
  KHD static real second(const auto& e, const auto&) { return e.first; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.second; }
};
}
"""


def test_transforms_of_a_step_share_matrices_and_a_failed_step_changes_none(tmp_path):
    (tmp_path / "with_matrix.cuh").write_text(MINE)
    rule = jitstep.load_rule(str(tmp_path / "with_matrix.cuh"))
    fails = [False]

    def first(call):
        assert set(call.matrices) == {"cross"}
        call.matrices["cross"] = call.matrices["cross"] + call.step

    def second(call):
        if fails[0]:
            raise RuntimeError("no")
        call.values.copy_(call.matrices["cross"].T)

    jitstep.register_parameter_transform("with_matrix_first", first, replace=True)
    jitstep.register_parameter_transform("with_matrix_second", second, replace=True)
    p = torch.zeros(2, 3, requires_grad=True)
    optimizer = rule([p])
    p.grad = torch.ones(2, 3)
    diagonal = 2 * torch.eye(3, 2)
    optimizer.step()
    assert torch.equal(optimizer.state[p]["cross"], diagonal + 1)
    assert torch.equal(p.detach(), (diagonal + 1).T)
    fails[0] = True
    with pytest.raises(RuntimeError, match="no"):
        optimizer.step()
    assert torch.equal(optimizer.state[p]["cross"], diagonal + 1)
    fails[0] = False
    optimizer.step()
    assert torch.equal(optimizer.state[p]["cross"], diagonal + 3)


@pytest.mark.parametrize(
    ("name", "made", "error"),
    [
        ("crosses", torch.ones(3, 2), ValueError),
        ("cross", torch.ones(2, 3), ValueError),
        ("cross", torch.ones(3, 2, device="meta"), ValueError),
        ("cross", torch.ones(3, 2).to_sparse(), ValueError),
        ("cross", torch.ones(3, 2, dtype=torch.int64), ValueError),
        ("cross", 1.0, TypeError),
    ],
)
def test_a_transform_assigns_only_matrices_that_exist_in_their_shape(tmp_path, name, made, error):
    (tmp_path / "with_matrix.cuh").write_text(MINE)
    rule = jitstep.load_rule(str(tmp_path / "with_matrix.cuh"))

    def first(call):
        call.matrices[name] = made

    jitstep.register_parameter_transform("with_matrix_first", first, replace=True)
    jitstep.register_parameter_transform("with_matrix_second", lambda call: None, replace=True)
    p = torch.zeros(2, 3, requires_grad=True)
    optimizer = rule([p])
    p.grad = torch.ones(2, 3)
    with pytest.raises(error, match=f"'with_matrix_first' .*{name}"):
        optimizer.step()
    assert torch.equal(p.detach(), torch.zeros(2, 3))


def test_backward_steps_keep_matrices():
    ps = parameters()
    optimizer = soap(ps)
    train(ps, optimizer, 3)
    other = parameters()
    alone = soap(other)
    alone.step_in_backward()
    for step in range(1, 4):
        generator = torch.Generator().manual_seed(step)
        sum((p * torch.randn(p.shape, generator=generator)).sum() for p in other).backward()
    assert same(values(ps), values(other))


SQUARE = """// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::with_views {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Transforms {
  real same;  // host: with_views
};
struct Matrices {
  Matrix<0, 0> one;    // initial: 3
  Matrix<0, 0> other;  // initial: 5
};
struct Rule {
  KHD static real same(const auto& e, const auto&) { return e.g; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.same; }
};
}
"""


def test_a_transform_may_assign_views_of_the_matrices(tmp_path):
    (tmp_path / "with_views.cuh").write_text(SQUARE)
    rule = jitstep.load_rule(str(tmp_path / "with_views.cuh"))
    made = torch.arange(4.0).reshape(2, 2)

    def views(call):
        one, other = call.matrices["one"], call.matrices["other"]
        if call.step == 1:
            call.matrices["one"] = made
        elif call.step == 2:
            call.matrices.update(one=other, other=one.T)
        else:
            call.matrices["other"] = other.T

    jitstep.register_parameter_transform("with_views", views, replace=True)
    p = torch.zeros(2, 2, requires_grad=True)
    optimizer = rule([p])
    expected = [(made, 5 * torch.eye(2)), (5 * torch.eye(2), made.T), (5 * torch.eye(2), made)]
    for one, other in expected:
        p.grad = torch.ones(2, 2)
        optimizer.step()
        assert torch.equal(optimizer.state[p]["one"], one)
        assert torch.equal(optimizer.state[p]["other"], other)


@pytest.mark.parametrize(("cls", "matrix"), [(jitstep.Shampoo, "pre_cond_0"), (jitstep.SOAP, "GG_0")])
def test_statistics_stay_finite(cls, matrix):
    p = torch.randn(4, 3, requires_grad=True)
    optimizer = cls([p], lr=0.02, precondition_frequency=3)

    def step_with_nan():
        p.grad = torch.full((4, 3), torch.nan)
        optimizer.step()

    train([p], optimizer, 1)
    step_with_nan()
    assert optimizer.state[p][matrix].isfinite().all()
    if cls is jitstep.SOAP:
        train([p], optimizer, 1, 3)  # the fourth step refreshes the bases
    with pytest.raises(RuntimeError, match=r"finite|converge"):
        step_with_nan()
