"""Classes, their arguments, files of the user, and errors."""

import importlib
import inspect
import pathlib
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from training import make, train

import jitstep

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH_CLASSES = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RAdam", "RMSprop",
    "Rprop", "SGD",
]  # fmt: skip


def weight():
    return torch.nn.Parameter(torch.ones(64, 64))


def test_there_is_a_class_for_every_rule():
    rules = {value.rule for value in vars(jitstep).values() if inspect.isclass(value) and hasattr(value, "rule")}
    assert set(jitstep.rules()) <= rules
    assert issubclass(jitstep.LAMB, torch.optim.Optimizer)


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_arguments_are_torchs_in_torchs_order(name):
    theirs = list(inspect.signature(getattr(torch.optim, name)).parameters.values())
    ours = list(inspect.signature(getattr(jitstep, name)).parameters.values())
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    wanted = [p.name for p in theirs if p.kind is positional]
    assert [p.name for p in ours if p.kind is positional] == wanted
    assert {p.name for p in theirs} <= {p.name for p in ours}
    by_name = {p.name: p for p in ours}
    for p in theirs:
        if p.default is not p.empty and not isinstance(p.default, str) and p.default is not None:
            assert by_name[p.name].default == p.default, p.name


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_defaults_are_torchs_also_for_programs_that_read_them(name):
    theirs = getattr(torch.optim, name)([weight()], **({"lr": 0.1} if name == "SGD" else {}))
    ours = getattr(jitstep, name)([weight()], **({"lr": 0.1} if name == "SGD" else {}))
    for wanted, found in ((theirs.defaults, ours.defaults), (theirs.param_groups[0], ours.param_groups[0])):
        assert {key: value for key, value in wanted.items() if key != "params" and found.get(key, ours) != value} == {}


def test_the_decay_of_adamw_cannot_be_coupled():
    with pytest.raises(ValueError, match=r"AdamW always decouples.* Use Adam"):
        jitstep.AdamW([{"params": [weight()], "decoupled_weight_decay": False}])


def test_the_docstring_has_options_ranges_defaults_and_source():
    text = jitstep.AdamW.__doc__
    for part in ("arXiv 1711.05101", "betas: in [0, 1). Default: (0.9, 0.999)", "jitstep show adamw", "exp_avg_sq"):
        assert part in text


def test_an_optimizer_is_made_by_name():
    one = jitstep.Optimizer("lion", [weight()], lr=2e-4, state="int8")
    assert one.param_groups[0]["lr"] == 2e-4
    one.param_groups[0]["params"][0].grad = torch.ones(64, 64)
    one.step()
    assert one.state[one.param_groups[0]["params"][0]]["exp_avg.codes"].dtype == torch.uint8


@pytest.mark.parametrize("as_text", [False, True])
def test_an_optimizer_is_made_from_a_spec(as_text):
    spec = {"rule": "adamw", "options": {"lr": 0.5, "betas": [0.8, 0.9]}, "state": {"v": "int8"}, "seed": 3}
    text = '{"rule": "adamw", "options": {"lr": 0.5, "betas": [0.8, 0.9]}, "state": {"v": "int8"}, "seed": 3}'
    made = jitstep.from_spec([weight()], text if as_text else spec)
    group = made.param_groups[0]
    assert type(made) is jitstep.AdamW
    assert (group["lr"], group["betas"], group["seed"]) == (0.5, (0.8, 0.9), 3)
    assert made.plan_of(group["params"][0]).name.startswith("adamw_fp32_int8")


def test_a_state_buffer_may_have_a_codec_of_its_own():
    p = weight()
    one = jitstep.AdamW([p], state={"exp_avg": "bf16", "exp_avg_sq": {"codec": "int8", "block": 128}})
    p.grad = torch.ones(64, 64)
    one.step()
    assert one.state[p]["exp_avg.codes"].numel() == 2 * 64 * 64
    assert one.state[p]["exp_avg_sq.scales"].numel() == 4 * 64 * 64 // 128


def test_a_rule_and_a_codec_of_ones_own_are_loaded():
    signum = jitstep.load_rule(ROOT / "examples/signum.cuh")
    codec = jitstep.load_codec(ROOT / "examples/linear8.cuh")
    net = make()
    optimizer = signum(net.parameters(), lr=1e-3, state=codec, min_quantized_size=512)
    losses = train(net, optimizer, 5)
    assert losses[-1] < losses[0]
    assert codec in jitstep.codecs()
    assert type(pickle.loads(pickle.dumps(optimizer))) is signum


def test_a_value_that_depends_on_the_rate_is_that_of_construction():
    one = jitstep.AdamW([weight()], lr=0.1, corrected_weight_decay=True)
    assert one.param_groups[0]["constructed"] == {"initial_lr": 0.1}
    assert "lr: 0.1\n" in repr(one) and "constructed" not in repr(one)
    assert "initial_lr" not in one.param_groups[0]
    torch.optim.lr_scheduler.StepLR(one, 1)
    assert one.param_groups[0]["initial_lr"] == 0.1


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: jitstep.AdamW([weight()], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: jitstep.Adam([weight()], betas=(1.0, 0.0)), ValueError, "Invalid beta parameter at index 0: 1.0"),
        (lambda: jitstep.SGD([weight()], lr=0.1, momentum=-0.5), ValueError, "Invalid momentum value: -0.5"),
        (lambda: jitstep.Adam([weight()], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: jitstep.Adam([weight()], betas=(0.1, None)), ValueError, "Invalid beta parameter at index 1: None"),
        (lambda: jitstep.Adam([weight()], amsgrad="yes"), TypeError, "the option amsgrad: must be True or False"),
        (lambda: jitstep.SGD([weight()], nesterov=True), ValueError, "Nesterov momentum requires a momentum"),
        (lambda: jitstep.Rprop([weight()], etas=(1.0, 0.5)), ValueError, "Invalid eta values: 1.0, 0.5"),
        (lambda: jitstep.AdamW([]), ValueError, "optimizer got an empty parameter list"),
        (lambda: jitstep.AdamW(weight()), TypeError, "params argument given to the optimizer"),
        (lambda: jitstep.AdamW([weight()], leaning_rate=1), TypeError, "leaning_rate.* Arguments: params, lr,"),
        (lambda: jitstep.AdamW([weight()], lrr=1), TypeError, r"^AdamW\.__init__\(\) .* 'lrr'\. Did you mean 'lr'\?$"),
        (lambda: jitstep.AdamW(), TypeError, r"^AdamW\.__init__\(\).*'params'"),
        (lambda: jitstep.Optimizer("adamw", [weight()], lrr=1), TypeError, "'lrr'.*'lr'"),
        (lambda: jitstep.Optimizer("adamw", [weight()], mu=1), TypeError, "has no option 'mu'"),
        (lambda: jitstep.Optimizer("adamq", [weight()]), ValueError, "adamq"),
        (lambda: jitstep.AdamW([weight()], lr="fast"), TypeError, "AdamW: the option lr: must be real number"),
        (lambda: jitstep.AdamW([weight()], lr=[1e-3]), TypeError, "AdamW: the option lr: "),
        (lambda: jitstep.AdamW([weight()], betas=0.9), TypeError, "AdamW: the option betas: "),
        (lambda: jitstep.Muon([weight()], adjust_lr_fn=3), TypeError, "Muon: the option adjust_lr_fn: "),
        (lambda: jitstep.AdamW([weight()], state="int9"), ValueError, "int9"),
        (lambda: jitstep.AdamW([weight()], state={"exp_avgs": "int8"}), ValueError, 'no slot "exp_avgs"'),
        (lambda: jitstep.AdamW([weight()], state={"mean": "int8"}), ValueError, "exp_avg, exp_avg_sq, max_exp_avg_sq$"),
        (
            lambda: jitstep.AdamW([weight()], state={"exp_avg": "factored"}),
            ValueError,
            "the slot exp_avg of adamw",
        ),
        (lambda: jitstep.AdamW([weight()], weights="split9"), ValueError, "split9"),
        (lambda: jitstep.AdamW([weight()], seed=-1), ValueError, '"seed" must be an integer from 0 to 2'),
        (lambda: jitstep.AdamW([weight()], lr=torch.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (lambda: jitstep.Adam([weight()], betas=2 * (torch.ones(2) / 2,)), ValueError, "Tensor betas.0. must be 1-el"),
        (lambda: jitstep.AdamW([weight()], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (lambda: jitstep.AdamW([weight()], differentiable=True), RuntimeError, "does not support `differentiable`"),
        (lambda: jitstep.Muon([torch.nn.Parameter(torch.ones(3))]), ValueError, "Muon only supports 2D parameters"),
        (
            lambda: jitstep.AdamW([torch.nn.Parameter(torch.ones(3), requires_grad=False).to(torch.int32)]),
            ValueError,
            r"parameter 0 \(int32 \[3\]\): its dtype is not supported",
        ),
        (
            lambda: jitstep.AdamW([torch.nn.Parameter(torch.ones(1).expand(4))]),
            ValueError,
            "elements that share memory",
        ),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_a_complex_parameter_that_a_rule_refuses_is_an_error_of_the_step(name):
    p = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
    p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match=f"{name} does not support complex parameters"):
        getattr(jitstep, name)([p]).step()


def test_a_refused_group_leaves_the_optimizer_as_it_was():
    one = jitstep.AdamW([weight()])
    with pytest.raises(ValueError, match="Invalid learning rate"):
        one.add_param_group({"params": [weight()], "lr": -1})
    assert len(one.param_groups) == 1


def test_a_key_of_a_group_that_looks_like_an_option_is_a_warning():
    with pytest.warns(UserWarning, match="AdamW ignores the key 'stat'.* 'state'") as caught:
        one = jitstep.AdamW([{"params": [weight()], "stat": "int8"}])
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="'weigh_decay'.* 'weight_decay'"):
        one.add_param_group({"params": [weight()], "weigh_decay": 0.1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.add_param_group({"params": [weight()], "name": "head", "lr_scale": 0.5, "weight_decay_scale": 2})
        with pytest.raises(UserWarning, match="beta"):
            one.add_param_group({"params": [weight()], "beta": 0.5})
        torch.optim.lr_scheduler.OneCycleLR(one, 0.1, total_steps=10)
        one.add_param_group({"params": [weight()], "initial_lr": 0.1, "max_lr": 0.1, "base_momentum": 0.85})
    assert len(one.param_groups) == 4
    assert one.param_groups[2]["name"] == "head"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.float8_e4m3fn])
def test_a_frozen_quantized_weight_is_accepted_as_in_torch(dtype):
    frozen = torch.nn.Parameter(torch.ones(3).to(dtype), requires_grad=False)
    trained = torch.nn.Parameter(torch.ones(5000))
    optimizer = jitstep.AdamW([frozen, trained], state="int8")
    optimizer.compile()
    trained.grad = torch.ones(5000)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert frozen not in optimizer.state
    assert [w.dtype for w in optimizer.fp32_weights()] == [torch.float32] * 2
    assert len(optimizer.kernels()) == 1
    assert optimizer.memory_report()
    optimizer.step_in_backward()
    trained.sum().backward()
    assert optimizer.state[trained]["step"] == 2
    assert torch.equal(frozen.float(), torch.ones(3))


def test_a_quantized_weight_that_requires_a_gradient_is_refused():
    weight = torch.nn.Parameter(torch.ones(3), requires_grad=True)
    weight.data = weight.data.to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=r"parameter 0 .*its dtype is not supported"):
        jitstep.AdamW([weight])


def test_parameters_that_share_memory_are_refused():
    base = torch.zeros(100)
    parts = [torch.nn.Parameter(base[:60]), torch.nn.Parameter(base[40:])]
    one = jitstep.SGD(parts, lr=0.1)
    for p in parts:
        p.grad = torch.ones_like(p)
    with pytest.raises(ValueError, match="parameters 0 and 1 share memory"):
        one.step()


def test_a_parameter_that_is_listed_twice_is_an_error_of_the_step():
    p = torch.nn.Parameter(torch.zeros(3))
    with pytest.warns(UserWarning, match="duplicate"):
        one = jitstep.AdamW([p, p])
    p.grad = torch.ones(3)
    with pytest.raises(ValueError, match="parameter 1 is parameter 0 once more"):
        one.step()
    assert torch.equal(p.detach(), torch.zeros(3))


def test_a_parameter_on_another_device_is_an_error_of_the_step():
    p = torch.nn.Parameter(torch.ones(3, device="meta"))
    one = jitstep.SGD([p], lr=0.1)
    p.grad = torch.ones(3, device="meta")
    for action in (one.step, one.compile, one.init_state, lambda: one.formats_of(p)):
        with pytest.raises(RuntimeError, match="only the CPU and NVIDIA GPUs have kernels"):
            action()


def test_the_package_has_the_other_names_of_torch_optim_or_says_where_they_are():
    assert jitstep.lr_scheduler is torch.optim.lr_scheduler
    assert jitstep.swa_utils is torch.optim.swa_utils
    assert importlib.import_module("jitstep.lr_scheduler") is torch.optim.lr_scheduler
    assert importlib.import_module("jitstep.swa_utils") is torch.optim.swa_utils
    for name in ("LBFGS", "SparseAdam"):
        with pytest.raises(AttributeError, match=rf"torch\.optim\.{name}"):
            getattr(jitstep, name)
    with pytest.raises(AttributeError, match="'AdamW'"):
        jitstep.AdamWW  # noqa: B018


def test_a_missing_compiler_has_an_error_of_its_own(tmp_path):
    program = """
import torch, jitstep
p = torch.nn.Parameter(torch.ones(3)); p.grad = torch.ones(3)
try:
    jitstep.AdamW([p]).step()
except jitstep.MissingCompilerError as error:
    assert isinstance(error, jitstep.Error) and "apt install g++" in str(error)
    print("told", torch.equal(p.detach(), torch.ones(3)))
"""
    import os

    environment = dict(os.environ, PATH=str(tmp_path), JITSTEP_CACHE_DIR=str(tmp_path / "cache"))
    environment.pop("JITSTEP_CXX", None)
    environment["PYTHONPATH"] = str(pathlib.Path(jitstep.__file__).parents[1])
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.stdout == "told True\n", run.stderr


def test_an_error_in_a_rule_names_file_and_line(tmp_path):
    path = tmp_path / "broken.cuh"
    path.write_text(
        "// Broken.\n#pragma once\nnamespace jitstep::rules::broken {\nstruct Hyper {\n  double lr = ;\n};\n}\n"
    )
    with pytest.raises(ValueError, match=r"broken\.cuh:\d"):
        jitstep.load_rule(path)


SOURCE = """// Follows the gradient.   class: {name}
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::{rule} {{
struct Hyper {{
  double lr = 1e-3;  // >= 0
}};
struct Rule {{
  KHD static void update_param(auto& e, const auto& c) {{ e.p = e.p - c.lr * {term}; }}
}};
}}
"""


def test_a_rule_replaces_nothing_of_the_package_but_its_own_class(tmp_path):
    path = tmp_path / "follower.cuh"
    for name in ("AdamW", "read_archive", "Optimizer", "catalog"):
        before = getattr(jitstep, name)
        path.write_text("// Line 1.\n" + SOURCE.format(name=name, rule="follower", term="e.g"))
        with pytest.raises(ValueError, match=rf"follower\.cuh:2: jitstep\.{name} exists already.*class:"):
            jitstep.load_rule(path)
        assert getattr(jitstep, name) is before
        assert "follower" not in jitstep.rules()
    path.write_text(SOURCE.format(name="Follower", rule="follower", term="e.g"))
    made = jitstep.load_rule(path)
    assert jitstep.Follower is made
    path.write_text(SOURCE.format(name="Follower", rule="follower", term="2 * e.g"))
    again = jitstep.load_rule(path)
    assert again is not made
    assert jitstep.Follower is again


@pytest.mark.parametrize(
    "name",
    ["state", "seed", "fused", "rule", "params", "self", "lambda", "mode", "schema", "shared_state", "initial_lr"],
)
def test_an_option_whose_name_has_another_meaning_in_python_is_refused(tmp_path, name):
    path = tmp_path / "follower2.cuh"
    source = SOURCE.format(name="Follower2", rule="follower2", term="e.g")
    path.write_text(source.replace("// >= 0\n", f"// >= 0\n  double {name} = 0;\n"))
    with pytest.raises(ValueError, match=rf"follower2\.cuh:7: `{name}`"):
        jitstep.load_rule(path)
    assert "follower2" not in jitstep.rules()


def test_a_class_with_the_name_of_a_word_of_python_is_refused(tmp_path):
    path = tmp_path / "follower4.cuh"
    path.write_text("// Line 1.\n" + SOURCE.format(name="lambda", rule="follower4", term="e.g"))
    with pytest.raises(ValueError, match=r"follower4\.cuh:2: `lambda`"):
        jitstep.load_rule(path)


def test_a_comment_that_is_not_utf_8_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "follower5.cuh"
    source = SOURCE.format(name="Follower5", rule="follower5", term="e.g").replace("// >= 0", "// >= 0; caf\xe9")
    path.write_bytes(source.encode("latin-1"))
    with pytest.raises(ValueError, match=r"follower5\.cuh:6: .*UTF-8"):
        jitstep.load_rule(path)


@pytest.mark.parametrize("name", ["residual", "step", "dtype", "sizes", "strides"])
def test_state_with_the_name_of_an_entry_of_every_state_is_refused(tmp_path, name):
    path = tmp_path / "follower3.cuh"
    source = SOURCE.format(name="Follower3", rule="follower3", term="e.g")
    path.write_text(
        source.replace("struct Rule {", f"struct Slots {{\n  Signed m;  // torch: {name}\n}};\nstruct Rule {{")
    )
    with pytest.raises(ValueError, match=rf"follower3\.cuh:9: `{name}`"):
        jitstep.load_rule(path)
    assert "follower3" not in jitstep.rules()


def test_a_rule_that_does_not_compile_raises_an_error_with_the_compilers_log(tmp_path):
    path = tmp_path / "faulty.cuh"
    path.write_text(SOURCE.format(name="Faulty", rule="faulty", term="no_such_name"))
    optimizer = jitstep.load_rule(path)([weight()])
    with pytest.raises(jitstep.CompileError, match="no_such_name") as caught:
        optimizer.compile()
    assert "no_such_name" in caught.value.log


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_step_whose_kernel_does_not_compile_leaves_no_state(tmp_path, in_backward):
    rule = f"faulty{int(in_backward)}"
    path = tmp_path / f"{rule}.cuh"
    path.write_text(SOURCE.format(name=rule.title(), rule=rule, term="no_such_name"))
    p = weight()
    optimizer = jitstep.load_rule(path)([p])
    optimizer.step_in_backward(in_backward)
    with pytest.raises(jitstep.CompileError):
        p.sum().backward()
        optimizer.step()
    assert len(optimizer.state) == 0
    optimizer.step_in_backward(False)
