"""Sequences of calls that few programs make: groups, gradients and parameters that change at unusual times."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from training import parameter

import jitstep


def tuned(agree):
    p = parameter(4000)
    optimizer = jitstep.AdamW([p], lr=1.0, weight_decay=0.0)
    optimizer.tune(agree=agree, progress=False)
    return p, optimizer


def step_until(done, p, optimizer):
    """Takes steps until the list has an entry. Tuning ends long before the limit."""
    for _ in range(2000):
        p.grad = torch.ones_like(p)
        optimizer.step()
        if done:
            break
    assert done


def test_ranks_agree_on_the_times_of_trials():  # which never read records of earlier runs
    asked = []
    p, optimizer = tuned(lambda times: asked.append(times) or times)
    step_until(asked, p, optimizer)
    assert all(isinstance(seconds, float) for seconds in asked[0])


@pytest.mark.parametrize("fails", [lambda times: 1 / 0, lambda times: "no list"])
def test_an_agreement_that_fails_leaves_a_complete_step(fails):
    p, optimizer = tuned(fails)
    q = parameter(4000)
    reference = jitstep.AdamW([q], lr=1.0, weight_decay=0.0)
    failed = False
    for _ in range(2000):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
        reference.step()
        try:
            optimizer.step()
        except (ZeroDivisionError, RuntimeError, TypeError):
            failed = True
            break
    assert failed
    assert torch.equal(p, q)
    assert optimizer.state[p]["step"] == reference.state[q]["step"]


def test_an_agreement_may_end_the_tuning():
    ended = []

    def end(times):
        optimizer.tune(False)
        gc.collect()
        ended.append(True)
        return times

    p, optimizer = tuned(end)
    step_until(ended, p, optimizer)
    assert optimizer.tuning_progress() == (0, 0)


def test_a_skipped_step_is_no_trial():
    asked = []
    p, optimizer = tuned(lambda times: asked.append(times) or times)
    optimizer.found_inf = torch.ones(())
    for _ in range(300):  # the trials of all candidates take 240 steps
        p.grad = torch.ones_like(p)
        optimizer.step()
    assert not asked
    assert optimizer.tuning_progress()[0] == 0
    assert not p.any()


def test_a_gradient_of_another_shape_is_refused_and_changes_nothing():
    p = parameter(4)
    optimizer = jitstep.SGD([p], lr=1.0)
    p.grad = torch.ones(4)
    optimizer.step()
    p.grad = torch.ones(4)
    p.data = torch.zeros(16)
    with pytest.raises(ValueError, match="shape"):
        optimizer.step()
    assert not p.any()


@pytest.mark.parametrize("make", [lambda z: z.conj(), lambda z: z.conj().imag])
def test_a_parameter_that_is_a_lazy_view_is_refused(make):
    p = torch.nn.Parameter(make(torch.tensor([1 + 2j, 3 - 1j])))
    p.grad = torch.ones_like(p)
    before = p.detach().clone()
    with pytest.raises((RuntimeError, ValueError), match="conjugate or negative view"):
        jitstep.SGD([p], lr=1.0).step()
    assert torch.equal(p, before)


def test_a_negated_complex_gradient_has_its_sign_in_every_step():
    p, q = parameter(3, dtype=torch.complex64), parameter(3, dtype=torch.complex64)
    ours, theirs = jitstep.SGD([p], lr=1.0), torch.optim.SGD([q], lr=1.0)
    for step in range(3):
        gradient = torch.full((3,), 1 + 2j * step, dtype=torch.complex64)
        p.grad, q.grad = torch._neg_view(gradient), torch._neg_view(gradient)
        ours.step()
        theirs.step()
    torch.testing.assert_close(p, q)


def test_a_group_that_is_refused_leaves_no_state():
    a, b = parameter(3), parameter(2)
    optimizer = jitstep.Adagrad([a])
    with pytest.raises(ValueError, match="parameter 2"):
        optimizer.add_param_group({"params": [b, torch.nn.Parameter(torch.zeros(1).expand(4))]})
    assert list(optimizer.state) == [a]
    assert len(optimizer.state_dict()["state"]) == 1
    optimizer.add_param_group({"params": [b]})
    assert len(optimizer.state_dict()["state"]) == 2


def test_a_step_that_fails_leaves_no_state_of_new_parameters():
    p = parameter(16)
    optimizer = jitstep.SGD([p], lr=0.1, momentum=0.9)
    p.grad = torch.ones(16)
    optimizer.step()
    view = torch.nn.Parameter(p.detach()[:8])
    optimizer.add_param_group({"params": [view]})
    view.grad = torch.ones(8)
    before = p.detach().clone()
    with pytest.raises(ValueError, match="memory"):
        optimizer.step()
    assert torch.equal(p, before)
    assert list(optimizer.state) == [p]
    optimizer.param_groups.pop()
    optimizer.step()
    assert optimizer.state[p]["step"] == 2
    assert optimizer.state_dict()["state"].keys() == {0}


def test_a_step_in_backward_follows_the_order_of_groups():
    a, b = parameter(2), parameter(2)
    optimizer = jitstep.SGD([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 10.0}])
    optimizer.step_in_backward()
    optimizer.param_groups.reverse()
    (a.sum() + b.sum()).backward()
    assert torch.equal(a, -torch.ones(2))
    assert torch.equal(b, -10 * torch.ones(2))
    del optimizer.param_groups[0]
    a.sum().backward()
    assert torch.equal(a, -2 * torch.ones(2))
    with pytest.raises(RuntimeError, match="in no group"):
        b.sum().backward()


def test_a_step_in_backward_reads_the_numbers_of_its_group():
    found = []
    for in_backward in (False, True):
        parameters = [torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16)) for _ in range(4)]
        groups = [
            {"params": parameters[:1], "initial_accumulated_decay": [0.25]},
            {"params": parameters[1:], "initial_accumulated_decay": [0.5, 0.75, 0.875]},
        ]
        optimizer = jitstep.AdamWBF16(groups, lr=0.125, weight_decay=0.125)
        if in_backward:
            optimizer.step_in_backward()
        for _ in range(8):
            sum(p.float().sum() for p in parameters).backward()
            if not in_backward:
                optimizer.step()
                optimizer.zero_grad()
        found.append(torch.stack([p.detach() for p in parameters]))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    "change", [lambda p: p.double(), lambda p: torch.zeros(3, 2).t(), lambda p: torch.zeros(40, 30)]
)
@pytest.mark.parametrize("in_backward", [False, True])
def test_an_input_for_another_form_of_the_parameter_is_refused(change, in_backward):
    p = parameter(2, 3)
    optimizer = jitstep.Sophia([p], lr=1.0)
    if in_backward:
        optimizer.step_in_backward()
    optimizer.set_input(p, "hessian", torch.ones(2, 3))
    p.data = change(p.data)
    with pytest.raises(ValueError, match="set_input"):
        p.sum().backward()
        optimizer.step()
    p.grad = None
    optimizer.set_input(p, "hessian", torch.ones_like(p))
    p.sum().backward()
    optimizer.step()
    assert p.isfinite().all()


def test_an_optimizer_that_its_agreement_names_is_freed():
    def made():
        p = parameter(4)
        optimizer = jitstep.AdamW([p])
        named = [optimizer]
        optimizer.tune(agree=lambda times: times if named else [], progress=False)
        return weakref.ref(optimizer)

    freed = made()
    gc.collect()
    assert freed() is None


def test_a_format_that_changes_in_place_counts_from_the_next_step():
    p = parameter(64)
    optimizer = jitstep.AdamW([p], state={"exp_avg": "bf16"})
    p.grad = torch.ones(64)
    optimizer.step()
    assert "exp_avg.codes" in optimizer.state[p]
    optimizer.param_groups[0]["state"]["exp_avg"] = "fp32"
    with pytest.warns(UserWarning, match="exp_avg"):
        optimizer.step()
    assert "exp_avg.codes" not in optimizer.state[p]


class Integer:
    """As numpy's."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def test_integers_of_other_libraries_are_formats():
    p = parameter(64)
    optimizer = jitstep.AdamW([p], state="int8", min_quantized_size=Integer(64), seed=Integer(3))
    optimizer.init_state()
    assert "exp_avg.codes" in optimizer.state[p]


def test_a_step_of_tensors_without_memory_is_refused_and_their_state_is_not():
    with FakeTensorMode():
        p = parameter(64)
        optimizer = jitstep.AdamW([p])
        optimizer.init_state()
        assert optimizer.memory_report().bytes_of("exp_avg") == 256
        p.grad = torch.ones(64)
        with pytest.raises(RuntimeError, match="FakeTensor"):
            optimizer.step()
        with pytest.raises(RuntimeError, match="FakeTensor"):
            optimizer.kernels()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_an_optimizer_has_its_inputs_and_settings(copied):
    p = parameter(4)
    optimizer = jitstep.Sophia([p], lr=0.1)
    optimizer.save_values = True
    optimizer.set_input(p, "hessian", torch.full((4,), 2.0))
    other = copied(optimizer)
    (q,) = other.param_groups[0]["params"]
    p.grad, q.grad = torch.ones(4), torch.ones(4)
    optimizer.step()
    other.step()
    assert other.save_values
    assert torch.equal(optimizer.value(p, "hessian_moment"), other.value(q, "hessian_moment"))
    assert other.value(q, "hessian_moment").abs().sum() > 0


def test_a_copy_has_the_public_attributes_of_the_original():
    optimizer = jitstep.AdamW([parameter(4)])
    other = copy.deepcopy(optimizer)
    public = [{name for name in one.__dict__ if not name.startswith("_")} for one in (optimizer, other)]
    assert public[0] == public[1]
    assert other.defaults == optimizer.defaults
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_a_flag_that_is_null_is_off_as_in_torch():
    p = parameter(4)
    optimizer = jitstep.Adam([p], amsgrad=None)
    p.grad = torch.ones(4)
    optimizer.step()
    assert "max_exp_avg_sq" not in optimizer.state[p]


def test_the_memory_report_counts_sparse_gradients():
    table = torch.nn.Embedding(10, 4, sparse=True)
    table(torch.tensor([1])).sum().backward()
    report = jitstep.SGD(table.parameters(), lr=0.1).memory_report()
    assert report.bytes_of("gradients") == 8 + 16


def test_export_depends_on_the_rule_and_not_on_the_name_of_the_class():
    class Renamed(jitstep.AdamW):
        pass

    class AdamW(jitstep.Lion):
        pass

    p = parameter(4)
    for optimizer in (Renamed([p]), jitstep.Optimizer("adamw", [p])):
        p.grad = torch.ones(4)
        optimizer.step()
        torch.optim.AdamW([p]).load_state_dict(optimizer.export())
    with pytest.raises(TypeError):
        AdamW([p]).export()


def test_sums_include_parameters_that_are_unfrozen_later():
    p, q = parameter(4), torch.nn.Parameter(torch.zeros(4), requires_grad=False)
    sums = jitstep.GradAccumulator([p, q], mean=True)
    assert not q.requires_grad
    q.requires_grad_()
    for _ in range(2):
        (p * 2 + q * 3).sum().backward()
    sums.assign_gradients()
    assert torch.equal(q.grad, torch.full((4,), 3.0, dtype=torch.bfloat16))


def test_steps_in_backward_include_parameters_that_are_unfrozen_later():
    p, q = parameter(4), torch.nn.Parameter(torch.zeros(4), requires_grad=False)
    optimizer = jitstep.SGD([p, q], lr=1.0)
    optimizer.step_in_backward()
    q.requires_grad_()
    (p * 2 + q * 3).sum().backward()
    assert torch.equal(q.detach(), torch.full((4,), -3.0))
    assert q.grad is None


def test_an_accumulator_refuses_wrong_arguments_when_it_is_made():
    p = parameter(4)
    with pytest.raises(ValueError, match="seed"):
        jitstep.GradAccumulator([p], seed=-1)
    with pytest.raises(ValueError, match="parameter 1"):
        jitstep.GradAccumulator([p, parameter(4, dtype=torch.complex64)])
    jitstep.GradAccumulator([p]).close()


def test_a_closed_accumulator_has_no_sums():
    p = parameter(4)
    sums = jitstep.GradAccumulator([p])
    (p * 2).sum().backward()
    sums.close()
    sums.assign_gradients()
    assert p.grad is None


def test_an_error_may_cut_a_character(tmp_path):
    rule = """// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::cut_text {
struct Hyper {
  double lr = 1;  // >= 0
};
// refuse: xEND, sentence
struct Rule {
  KHD static void update_param(auto& e, const auto&) { e.p = e.g; }
};
}
"""
    for number in range(3):
        file = tmp_path / "cut_text.cuh"
        file.write_text(rule.replace("END", "a" * number + "\u20ac" * 100))
        with pytest.raises(ValueError, match=r"cut_text\.cuh:8"):
            jitstep.load_rule(file)


@pytest.mark.parametrize("what", ["parameter", "gradient"])
def test_tensors_without_memory_of_their_own_are_refused_by_number(what):
    two = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    wrapped = two(torch.ones(4), torch.ones(4))
    p = torch.nn.Parameter(wrapped if what == "parameter" else torch.ones(4))
    optimizer = jitstep.SGD([parameter(3), p], lr=1.0)
    p.grad = wrapped
    with pytest.raises(ValueError, match=r"parameter 1 .*has no memory"):
        optimizer.step()


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_step_in_a_traced_function_is_an_error_and_changes_nothing(mode):
    p = torch.zeros(3)
    optimizer = jitstep.SGD([p], lr=0.1)

    def function(x):
        p.grad = x
        optimizer.step()
        return p + 0

    with pytest.raises(RuntimeError, match="make_fx"):
        make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=True)(torch.ones(3))
    assert torch.equal(p, torch.zeros(3))
    p.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(p, torch.full((3,), -0.1))
