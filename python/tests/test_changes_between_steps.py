"""Parameters, options and state that programs change or read between steps, in ways that torch.optim permits."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from training import parameter

import jitstep

AUXILIARY = ["Adafactor", "CAME", "SM3", "AdamMini", "NorMuon", "Shampoo"]


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
    def stepped(change, asks):
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

    changed = stepped(change, asks=True)
    assert torch.equal(changed, stepped(change, asks=False))
    assert not torch.equal(changed, stepped({}, asks=False))


# Formulas divide by it.
@pytest.mark.parametrize(
    "name, option", [("LookaheadAdamW", "k"), ("Prodigy", "slice_p"), ("SOAP", "precondition_frequency")]
)
@pytest.mark.parametrize("value", [0, -1, 2.5])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_whole_number_that_becomes_invalid_is_an_error_that_changes_nothing(name, option, value, loaded):
    p = torch.nn.Parameter(torch.ones(8, 8))
    optimizer = getattr(jitstep, name)([p])
    p.grad = torch.ones_like(p)
    optimizer.step()
    group = optimizer.param_groups[0]
    before, right = p.detach().clone(), group[option]
    if loaded:
        saved = optimizer.state_dict()
        saved["param_groups"][0][option] = value
        with pytest.raises(ValueError, match=option):
            optimizer.load_state_dict(saved)
            optimizer.step()
        group = optimizer.param_groups[0]
    else:
        group[option] = value
        with pytest.raises(ValueError, match=option):
            optimizer.step()
    assert torch.equal(p, before)
    group[option] = right
    optimizer.step()
    assert not torch.equal(p, before)


@pytest.mark.parametrize("loaded", [False, True])
def test_none_in_a_list_of_numbers_is_an_error_that_changes_nothing(loaded):
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.AdamW([p])
    p.grad = torch.ones(3)
    optimizer.step()
    before = p.detach().clone()
    saved = optimizer.state_dict()
    saved["param_groups"][0]["betas"] = (1.5, None)
    if not loaded:
        optimizer.param_groups[0]["betas"] = (1.5, None)
    with pytest.raises(ValueError, match=r"betas\[1\]"):
        optimizer.load_state_dict(saved) if loaded else optimizer.step()
    assert torch.equal(p, before)
    optimizer.param_groups[0]["betas"] = (0.9, 0.99)
    optimizer.step()


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


@pytest.mark.parametrize("fmt", ["int8", "bf16"])
def test_state_is_saved_with_the_shape_that_it_was_made_for(fmt):
    p = torch.nn.Parameter(torch.ones(64, 128))
    optimizer = jitstep.AdamW([p], state=fmt)
    p.grad = torch.ones_like(p)
    optimizer.step()
    p.data = p.data.t().contiguous()
    saved = optimizer.state_dict()
    assert saved["state"][0]["sizes"] == (64, 128)
    other = jitstep.AdamW([torch.nn.Parameter(torch.ones(128, 64))], state=fmt)
    with pytest.raises(ValueError, match="64, 128"):
        other.load_state_dict(saved)


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
    p.grad = torch.ones(3)
    optimizer.step()
    assert "exp_avg" in optimizer.export()["state"][0]
    assert list(optimizer.state_dict()) == ["wrapped"]


def test_a_hook_before_state_dict_may_register_one_after_it():
    optimizer = jitstep.Adam([parameter(3)])
    seen = []

    def register(one):
        one.register_state_dict_post_hook(lambda _, packed: seen.append(packed["param_groups"][0]["rule"]))

    handle = optimizer.register_state_dict_pre_hook(register)
    optimizer.state_dict()
    handle.remove()
    optimizer.state_dict()
    assert seen == ["adam", "adam"]


def test_a_hook_of_state_dict_may_call_it_again():
    optimizer = jitstep.Adam([parameter(3)])
    inside = []

    def nested(one, packed):
        if not inside:
            inside.append(None)
            inside[0] = one.state_dict()

    optimizer.register_state_dict_post_hook(nested)
    optimizer.register_state_dict_post_hook(lambda _, packed: None)
    assert optimizer.state_dict() == inside[0]


def test_a_group_that_the_program_appended_is_saved_and_loaded():
    p, q = parameter(3), parameter(2)
    optimizer = jitstep.SGD([p], lr=0.25)
    optimizer.param_groups.append({"params": [q], "lr": 0.5})
    optimizer.save_values = True
    optimizer.load_state_dict(optimizer.state_dict())
    q.grad = torch.ones(2)
    optimizer.step()
    assert q.tolist() == [-0.5, -0.5]


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
    assert pickle.loads(pickle.dumps(old)).rule == "twice"
    file.write_text(text.replace("e.p - c.lr", "e.p - 2 * c.lr"))
    second = jitstep.load_rule(file)
    assert second is not first
    p.grad = torch.ones(3)
    second([p]).step()
    assert torch.equal(p.detach(), torch.full((3,), -2.0))


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
