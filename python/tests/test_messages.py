"""Messages name what was wrong: the argument, the parameter, the file."""

import warnings

import pytest
import torch

import jitstep


def weight(*sizes, dtype=torch.float32):
    return torch.nn.Parameter(torch.ones(*(sizes or (4,)), dtype=dtype))


def step(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.ones_like(p)
    optimizer.step()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (torch.bfloat16, r'^AdamW: state is torch\.bfloat16\. .*state="bf16"'),
        (torch.int8, 'state="int8"'),
        (8, "^AdamW: state is 8"),
        ([], r"^AdamW: state is \[\]"),
        ({"exp_avg": torch.float16}, r"^AdamW: state\['exp_avg'\] is torch.float16.*\"fp16\""),
        ({"exp_avg": 8}, r"^AdamW: state\['exp_avg'\] is 8"),
    ],
)
def test_a_format_that_is_no_name_is_an_error_with_the_argument(state, words):
    with pytest.raises(TypeError, match=words):
        jitstep.AdamW([weight()], state=state)


@pytest.mark.parametrize("weights", [torch.bfloat16, 3, {"codec": "split16"}])
def test_a_weight_format_that_is_no_name_is_an_error_with_the_argument(weights):
    with pytest.raises(TypeError, match=r'^AdamW: weights is .*weights="split16"'):
        jitstep.AdamW([weight()], weights=weights)


@pytest.mark.parametrize("arguments", [([weight()],), ([weight()], "adamw")])
def test_an_optimizer_without_the_rules_name_is_an_error_with_an_example(arguments):
    with pytest.raises(TypeError, match=r'the name of the rule, as in Optimizer\("adamw", params\), not a list'):
        jitstep.Optimizer(*arguments)


def test_an_optimizer_without_parameters_is_an_error_with_an_example():
    with pytest.raises(TypeError, match=r"^Optimizer: the argument params is missing"):
        jitstep.Optimizer("lion")


@pytest.mark.parametrize("dtype", [torch.int32, torch.float8_e4m3fn])
def test_the_dtype_of_a_gradient_that_is_not_supported_is_named(dtype):
    p = weight()
    if not hasattr(p, "grad_dtype"):
        pytest.skip("this torch allows no gradients of other dtypes")
    optimizer = jitstep.SGD([("layer.bias", p)])
    p.grad_dtype = None
    p.grad = torch.ones(4).to(dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(ValueError, match=rf"parameter 0 \('layer.bias', float32 \[4\]\): .* gradient is {name},.*bfl"):
        optimizer.step()
    assert torch.equal(p, torch.ones(4))


@pytest.mark.parametrize(("number", "words"), [(-5.0, "step is -5"), ([5.0, 1.0], "step has 2 elements")])
def test_a_wrong_step_number_is_an_error_with_the_parameter(number, words):
    optimizer = jitstep.AdamW([weight(), weight()])
    step(optimizer)
    second = optimizer.param_groups[0]["params"][1]
    optimizer.state[second]["step"] = torch.tensor(number)
    with pytest.raises(ValueError, match=rf"parameter 1 \(float32 \[4\]\): the state {words}"):
        step(optimizer)


def test_a_group_that_was_appended_has_the_defaults_of_its_options():
    p = weight()
    optimizer = jitstep.SGD([weight()], lr=0.25)
    optimizer.param_groups.append({"params": [p], "lr": 0.5})
    step(optimizer)
    assert torch.equal(p.detach(), torch.full((4,), 0.5))


def test_a_value_of_a_spec_that_is_no_json_is_an_error_with_its_place():
    with pytest.raises(TypeError, match=r"^from_spec\(\): options\.lr is a Tensor"):
        jitstep.from_spec([weight()], {"rule": "adamw", "options": {"lr": torch.tensor(1e-3)}})
    with pytest.raises(TypeError, match=r"options\.betas\[1\] is a complex"):
        jitstep.from_spec([weight()], {"rule": "adamw", "options": {"betas": [0.9, 1j]}})


def checkpoint_of(*sizes, state=None):
    optimizer = jitstep.AdamW([weight(*one) for one in sizes], state=state)
    step(optimizer)
    return optimizer.state_dict()


def test_state_of_another_shape_is_an_error_with_the_parameter():
    other = jitstep.AdamW([("a", weight()), ("b", weight()), ("c", weight(5))])
    words = r"parameter 2 \('c', float32 \[5\]\): the state exp_avg has the shape \[4\].* Load the state of this"
    with pytest.raises(ValueError, match=words):
        other.load_state_dict(checkpoint_of((4,), (4,), (4,)))
    assert not other.state


def test_codes_of_another_shape_are_an_error_with_the_parameter():
    other = jitstep.AdamW([weight(), weight(8193)], state="int8")
    with pytest.raises(ValueError, match=r"shape \[8192\] for parameter 1 \(float32 \[8193\]\)"):
        other.load_state_dict(checkpoint_of((4,), (8192,), state="int8"))


def test_incomplete_codes_are_an_error_with_the_parameter():
    loaded = checkpoint_of((4,), (8192,), state="int8")
    loaded["state"][1]["exp_avg.codes"] = loaded["state"][1]["exp_avg.codes"][:-1]
    other = jitstep.AdamW([weight(), weight(8192)], state="int8")
    with pytest.raises(ValueError, match=r"parameter 1 \(float32 \[8192\]\): the state exp_avg.codes has 8191 of 8192"):
        other.load_state_dict(loaded)


def test_a_parameter_that_grew_is_an_error_of_the_step_that_says_how_to_go_on():
    optimizer = jitstep.AdamW([weight(), weight()])
    step(optimizer)
    p = optimizer.param_groups[0]["params"][1]
    p.data = torch.ones(6)
    with pytest.raises(ValueError, match=r"parameter 1 \(float32 \[6\]\): .*del optimizer\.state\[p\]"):
        step(optimizer)
    del optimizer.state[p]
    step(optimizer)
    assert optimizer.value(p, "exp_avg").shape == (6,)


@pytest.mark.parametrize("read", ["load_state_dict", "write_archive"])
def test_a_dict_that_is_no_state_dict_is_an_error_that_names_the_entry(read, tmp_path):
    optimizer = jitstep.AdamW([weight()])
    step(optimizer)

    def use(found):
        if read == "load_state_dict":
            optimizer.load_state_dict(found)
        else:
            jitstep.write_archive(tmp_path / "a.pt", found)

    state = optimizer.state_dict()
    with pytest.raises(ValueError, match=r"the keys 'model', 'optimizer' is no state_dict.* its entry 'optimizer'"):
        use({"model": {}, "optimizer": state})
    with pytest.raises(ValueError, match=r"an empty dict is no state_dict.*state_dict\(\) of an optimizer"):
        use({})
    assert not list(tmp_path.iterdir())


def test_errors_of_files_name_the_file_of_the_program(tmp_path):
    optimizer = jitstep.AdamW([weight()])
    target = tmp_path / "missing" / "a.pt"
    with pytest.raises(FileNotFoundError) as caught:
        jitstep.write_archive(target, optimizer.state_dict())
    assert caught.value.filename == str(target)
    assert str(caught.value).endswith(f"'{target}'")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        jitstep.write_archive(tmp_path / "folder", optimizer.state_dict())
    assert str(caught.value).endswith(f"'{tmp_path / 'folder'}'")
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(FileNotFoundError, match=r"nope\.pt"):
        jitstep.read_archive(tmp_path / "nope.pt")


@pytest.mark.parametrize(
    ("dtype", "weights", "warned"),
    [
        (torch.float16, "split16", True),
        (torch.float16, "kahan", True),
        (torch.float16, "stochastic", True),
        (torch.float16, "split8", False),
        (torch.float16, "native", False),
        (torch.bfloat16, "split16", False),
        (torch.float32, "split16", False),  # as in models of several dtypes
    ],
)
def test_a_16_bit_parameter_without_its_weight_format_is_one_warning(dtype, weights, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = jitstep.SGD([weight(dtype=dtype), weight(dtype=dtype)], weights=weights)
        step(optimizer)
        optimizer.add_param_group({"params": [weight(dtype=dtype)]})
        optimizer.load_state_dict(optimizer.state_dict())
        step(optimizer)
    assert [one.filename for one in caught] == [__file__] * warned
    assert all(f"{weights} does not support float16" in str(one.message) for one in caught)


def test_a_model_that_becomes_float16_later_is_a_warning_of_the_step():
    net = torch.nn.Linear(4, 4)
    optimizer = jitstep.SGD(net.parameters(), weights="split16")
    net.half()
    with pytest.warns(UserWarning, match="split16 does not support float16"):
        step(optimizer)
    step(optimizer)


@pytest.mark.parametrize("given", [None, [1], "optimizer"])
def test_what_is_no_state_dict_is_named_by_its_type(given):
    optimizer = jitstep.SGD([weight()])
    given = jitstep.AdamW([weight()]) if given == "optimizer" else given
    with pytest.raises(ValueError, match=f"of the type {type(given).__name__} is no state_dict"):
        optimizer.load_state_dict(given)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"state": [1]}, "'state' of the state_dict is a list"),
        ({"state": {0: "x"}}, "a str as the state of parameter 0"),
        ({"param_groups": ["a"]}, r"param_groups\[0\] of the state_dict"),
        ({"param_groups": [{"lr": 1}]}, "the key 'params'"),
    ],
)
def test_a_damaged_state_dict_is_an_error_that_names_the_entry(changed, words):
    optimizer = jitstep.AdamW([weight()])
    step(optimizer)
    with pytest.raises(ValueError, match=words):
        optimizer.load_state_dict({**optimizer.state_dict(), **changed})
    step(optimizer)


@pytest.mark.parametrize(("name", "meant"), [("Adamw", "AdamW"), ("Rmsprop", "RMSprop")])
def test_a_class_in_other_letter_case_is_found(name, meant):
    with pytest.raises(AttributeError, match=f"Did you mean '{meant}'"):
        getattr(jitstep, name)


def test_an_error_in_backward_names_the_parameter():
    p = weight(4)

    def grow(tensor):
        tensor.data = torch.ones(7)

    p.register_post_accumulate_grad_hook(grow)
    optimizer = jitstep.SGD([{"params": [weight(2)]}, {"params": [p]}])
    optimizer.step_in_backward()
    with pytest.raises(ValueError, match=r"parameter 1 .*its gradient has another shape"):
        p.sum().backward()


@pytest.mark.parametrize("name", ["seed", "min_quantized_size", "state"])
def test_a_number_of_a_format_that_is_not_finite_is_an_error_with_the_argument(name):
    value = {"codec": "int8", "block": float("inf")} if name == "state" else float("nan")
    with pytest.raises(ValueError, match=f"^{name} is "):
        jitstep.AdamW([weight()], **{name: value})


@pytest.mark.parametrize("later", [False, True])
def test_an_unknown_state_buffer_is_an_error_with_the_names_of_torch(later):
    formats = {"foo": "int8"}
    p = weight()
    p.grad = torch.ones_like(p)
    optimizer = jitstep.AdamW([p])
    with pytest.raises(ValueError, match="exp_avg, exp_avg_sq"):
        if later:
            optimizer.param_groups[0]["state"] = formats
            optimizer.step()
        else:
            jitstep.AdamW([p], state=formats)


@pytest.mark.parametrize(("name", "value"), [("grad_scale", 0.0), ("grad_scale", -1.0), ("max_grad_norm", -1.0)])
def test_an_option_that_torch_lacks_keeps_its_range_later_and_an_error_changes_nothing(name, value):
    p = weight()
    p.grad = torch.ones_like(p)
    optimizer = jitstep.SGD([p], lr=0.1)
    optimizer.step()
    before = p.detach().clone()
    optimizer.param_groups[0][name] = value
    with pytest.raises(ValueError, match=name):
        optimizer.step()
    assert torch.equal(p, before)
