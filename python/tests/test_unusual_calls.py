"""Sequences of calls that few programs make: groups, gradients and parameters that change at unusual times."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import jitstep


def parameter(*sizes, dtype=torch.float32):
    return torch.nn.Parameter(torch.zeros(*sizes, dtype=dtype))


def tuned(agree):
    p = parameter(4000)
    optimizer = jitstep.AdamW([p], lr=1.0, weight_decay=0.0)
    optimizer.tune(agree=agree, progress=False)
    return p, optimizer


def test_ranks_agree_on_the_times_of_trials(monkeypatch, tmp_path):
    monkeypatch.setenv("JITSTEP_CACHE_DIR", str(tmp_path))
    asked = []
    p, optimizer = tuned(lambda times: asked.append(times) or times)
    for _ in range(2000):
        p.grad = torch.ones_like(p)
        optimizer.step()
        if asked:
            break
    assert asked
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


def test_an_agreement_may_end_the_tuning(monkeypatch, tmp_path):
    monkeypatch.setenv("JITSTEP_CACHE_DIR", str(tmp_path))
    ended = []

    def end(times):
        optimizer.tune(False)
        gc.collect()
        ended.append(True)
        return times

    p, optimizer = tuned(end)
    for _ in range(2000):
        p.grad = torch.ones_like(p)
        optimizer.step()
        if ended:
            break
    assert ended
    assert optimizer.tuning_progress() == (0, 0)


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


AUXILIARY = ["Adafactor", "CAME", "SM3", "AdamMini", "NorMuon"]


@pytest.mark.parametrize("name", AUXILIARY)
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_a_parameter_may_change_its_dtype_when_the_rule_has_state_per_row(name, dtypes):
    torch.manual_seed(1)
    gradients = [torch.randn(40, 30, dtype=torch.float64) for _ in range(4)]

    def trained(dtypes):
        p = torch.nn.Parameter(torch.ones(40, 30, dtype=dtypes[0]))
        optimizer = getattr(jitstep, name)([p], lr=1e-2)
        for dtype, two in zip(dtypes, (gradients[:2], gradients[2:]), strict=True):
            p.data = p.data.to(dtype)
            for gradient in two:
                p.grad = gradient.to(dtype)
                optimizer.step()
        return p.detach().double(), optimizer.state[p]

    changed, state = trained(dtypes)
    wanted, _ = trained((torch.float64, torch.float64))
    assert torch.allclose(changed, wanted, rtol=1e-4, atol=1e-5)
    held = [v for k, v in state.items() if isinstance(v, torch.Tensor) and v.dim() > 0]
    assert all(value.dtype == dtypes[1] for value in held)


REPORTS = {
    "value": lambda optimizer, p: optimizer.value(p, "momentum_buffer"),
    "compile": lambda optimizer, p: optimizer.compile(progress=False),
    "export": lambda optimizer, p: optimizer.export(),
    "fp32_weights": lambda optimizer, p: optimizer.fp32_weights(),
    "init_state": lambda optimizer, p: optimizer.init_state(),
    "plan_of": lambda optimizer, p: optimizer.plan_of(p),
}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("change", [{"maximize": True}, {"nesterov": True}, {"state": "int8"}, {"max_grad_norm": 0.1}])
def test_an_option_changed_before_a_report_counts_in_the_next_step(report, change):
    def stepped(asks):
        p = torch.nn.Parameter(torch.linspace(-1, 1, 5000))
        optimizer = jitstep.SGD([p], lr=0.1, momentum=0.9)
        for step in range(3):
            p.grad = torch.cos(p.detach())
            if step == 2:
                optimizer.param_groups[0].update(change)
                if asks:
                    REPORTS[report](optimizer, p)
            optimizer.step()
        return p.detach()

    assert torch.equal(stepped(True), stepped(False))


def test_a_parameter_that_moves_to_the_next_group_gets_its_options():
    def stepped(library):
        ps = [torch.nn.Parameter(torch.ones(3)) for _ in range(3)]
        groups = [{"params": ps[:2], "lr": 0.1}, {"params": ps[2:], "lr": 0.001}]
        optimizer = library.SGD(groups, lr=1.0)
        for step in range(2):
            for p in ps:
                p.grad = torch.ones_like(p)
            if step == 1:
                first, second = optimizer.param_groups
                second["params"].insert(0, first["params"].pop())
            optimizer.step()
        return torch.stack([p.detach() for p in ps])

    assert torch.allclose(stepped(jitstep), stepped(torch.optim))


@pytest.mark.parametrize("name", ["AdamW", "Adafactor"])
def test_replaced_parameters_are_freed(name):
    p = torch.nn.Parameter(torch.ones(8, 8))
    optimizer = getattr(jitstep, name)([p], lr=0.1)
    replaced = []
    for _ in range(3):
        p.grad = torch.ones_like(p)
        optimizer.step()
        grown = torch.nn.Parameter(p.detach().clone())
        optimizer.state[grown] = optimizer.state.pop(p)
        optimizer.param_groups[0]["params"][0] = grown
        replaced.append(weakref.ref(p))
        p = grown
    p.grad = torch.ones_like(p)
    optimizer.step()
    gc.collect()
    assert [one() for one in replaced] == [None] * 3


@pytest.mark.parametrize("fmt", ["fp32", "int8", "int4"])
def test_state_of_a_parameter_of_another_shape_is_not_loaded(fmt):
    saved = torch.nn.Parameter(torch.ones(64, 128))
    source = jitstep.AdamW([saved], state=fmt)
    saved.grad = torch.ones_like(saved)
    source.step()
    other = jitstep.AdamW([torch.nn.Parameter(torch.ones(128, 64))], state=fmt)
    with pytest.raises(ValueError, match=r"64, 128"):
        other.load_state_dict(source.state_dict())
    assert not other.state


def test_a_process_without_standard_error_can_step(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    p = parameter(3)
    p.grad = torch.ones(3)
    jitstep.SGD([p], lr=1.0).step()
    assert torch.equal(p.detach(), -torch.ones(3))


def test_an_optimizer_in_its_own_state_is_freed():
    p = parameter(5)
    optimizer = jitstep.Adam([p])
    p.grad = torch.ones(5)
    optimizer.step()
    optimizer.state[p]["owner"] = optimizer
    p.grad = torch.ones(5)
    optimizer.step()
    freed = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert freed() is None


def test_compile_accepts_sparse_gradients():
    table = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = jitstep.SGD(table.parameters(), lr=1.0)
    table(torch.tensor([1, 3])).sum().backward()
    optimizer.compile(progress=False)
    assert table.weight.grad.layout == torch.sparse_coo
    optimizer.step()


def test_hooks_of_state_dict_see_all_of_it_and_may_replace_it():
    p = parameter(3)
    optimizer = jitstep.Adam([p])
    optimizer.register_state_dict_post_hook(lambda _, packed: {"wrapped": packed})
    packed = optimizer.state_dict()
    assert list(packed) == ["wrapped"]
    assert packed["wrapped"]["param_groups"][0]["rule"] == "adam"


def test_params_may_be_any_sequence():
    ps = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2)) for _ in range(2)])
    optimizer = jitstep.SGD(list(ps), lr=1.0)
    optimizer.param_groups[0]["params"] = ps
    for _ in range(2):
        for p in ps:
            p.grad = torch.ones_like(p)
        optimizer.step()
    assert all(torch.equal(p.detach(), -torch.ones(2)) for p in ps)


def test_numbers_of_numpy_are_options_of_formats():
    numpy = pytest.importorskip("numpy")
    p = torch.nn.Parameter(torch.ones(5000))
    fmt = {"codec": "int8", "block": numpy.int64(64)}
    optimizer = jitstep.AdamW([p], state=fmt)
    p.grad = torch.ones(5000)
    optimizer.step()
    assert "64" in optimizer.state[p]["exp_avg.format"]
    norm = {"codec": "fp8_norm", "least_norm": numpy.float32(0.5)}
    jitstep.AdamW([torch.nn.Parameter(torch.ones(5000))], state=norm)


@pytest.mark.parametrize("name", ["NAdam", "RAdam"])
def test_options_that_old_checkpoints_of_torch_lack_are_false(name):
    p = parameter(3)
    reference = getattr(torch.optim, name)([p], decoupled_weight_decay=True, maximize=True)
    packed = reference.state_dict()
    for option in ("decoupled_weight_decay", "maximize"):
        del packed["param_groups"][0][option]
    optimizer = getattr(jitstep, name)([p], decoupled_weight_decay=True, maximize=True)
    for loaded in (reference, optimizer):
        loaded.load_state_dict(copy.deepcopy(packed))
    for option in ("decoupled_weight_decay", "maximize"):
        assert optimizer.param_groups[0][option] is reference.param_groups[0][option] is False


def test_a_frozen_integer_parameter_may_have_state():
    p, q = torch.nn.Parameter(torch.zeros(3, dtype=torch.int8), requires_grad=False), parameter(3)
    optimizer = jitstep.SGD([p, q], lr=1.0)
    optimizer.state[p]["note"] = 1
    q.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(q.detach(), -torch.ones(3))


@pytest.mark.parametrize("entry", ["codes", "scales"])
def test_state_may_be_replaced_by_misaligned_bytes(entry):
    def misaligned(value):
        room = torch.empty(value.numel() + 80, dtype=value.dtype)
        begin = -room.data_ptr() % 64 + 1
        return room[begin : begin + value.numel()].copy_(value)

    def stepped(replaces):
        torch.manual_seed(2)
        p = torch.nn.Parameter(torch.randn(64, 70))
        optimizer = jitstep.Muon([p], lr=1e-2, state={"codec": "int4", "block": 32})
        for _ in range(2):
            p.grad = torch.randn(64, 70)
            optimizer.step()
            if replaces:
                key = f"momentum_buffer.{entry}"
                optimizer.state[p][key] = misaligned(optimizer.state[p][key])
        p.grad = torch.randn(64, 70)
        optimizer.step()
        return p.detach()

    assert torch.equal(stepped(True), stepped(False))


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


def test_a_parameter_of_many_dimensions_takes_gradients_in_other_orders():
    sizes = (2, 3, 1, 2, 2, 1, 3, 2, 2)

    def stepped(gradient):
        p = torch.nn.Parameter(torch.ones(sizes))
        optimizer = jitstep.AdamW([p], lr=0.1)
        for _ in range(2):
            p.grad = gradient
            optimizer.step()
        return p.detach()

    transposed = torch.randn(sizes[::-1]).permute(*range(8, -1, -1))
    expanded = torch.tensor(0.5).expand(sizes)
    for gradient in (transposed, expanded):
        assert torch.equal(stepped(gradient), stepped(gradient.contiguous()))


def test_a_rule_that_is_loaded_again_keeps_its_class(tmp_path):
    file = tmp_path / "twice.cuh"
    text = """// A rule.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::twice {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Slots {
  Signed m;
};
struct Scalars {
  real lr;
};
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_state(auto& e, const auto& c) { e.m.next = e.g; }
  KHD static void update_param(auto& e, const auto& c) { e.p = e.p - c.lr * e.m.next; }
};
}  // namespace jitstep::rules::twice
"""
    file.write_text(text)
    first = jitstep.load_rule(file)
    p = parameter(3)
    old = first([p])
    assert jitstep.load_rule(file) is first
    file.write_text(text.replace("e.p - c.lr", "e.p - 2 * c.lr"))
    assert jitstep.load_rule(file) is first
    assert pickle.loads(pickle.dumps(old)).rule == "twice"
    new = first([p])
    p.grad = torch.ones(3)
    new.step()
    assert torch.equal(p.detach(), torch.full((3,), -2.0))
    file.write_text(text.replace("double lr = 1", "double lr = 3"))
    assert jitstep.load_rule(file) is not first


def test_an_archive_cannot_have_state_of_something_else(tmp_path):
    p = parameter(3)
    optimizer = jitstep.Adam([p])
    optimizer.state["note"] = {"a": 1}
    with pytest.raises(ValueError, match="'note'"):
        jitstep.write_archive(tmp_path / "a.pt", optimizer.state_dict())
    assert not list(tmp_path.iterdir())


def test_state_moves_to_shared_memory():
    p = parameter(5)
    optimizer = jitstep.Adagrad([p], lr=1.0)
    optimizer.share_memory()
    assert optimizer.state[p]["sum"].is_shared()
    p.grad = torch.ones(5)
    optimizer.step()
    assert torch.equal(optimizer.state[p]["sum"], torch.ones(5))
    with pytest.raises(RuntimeError, match="auxiliary"):
        jitstep.Adafactor([parameter(5)]).share_memory()


@pytest.mark.parametrize("gradient", [0.0, 1e-25])
def test_norms_of_zero_do_not_make_parameters_nan(gradient):
    p = torch.nn.Parameter(torch.ones(5000))
    optimizer = jitstep.AdamW([p], state={"codec": "fp8_norm", "least_norm": 0})
    for _ in range(3):
        p.grad = torch.full((5000,), gradient)
        optimizer.step()
    assert p.isfinite().all()
