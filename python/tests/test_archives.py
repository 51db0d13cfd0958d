"""Archives of the C++ front end: written, loaded by C++, read, and continued bit for bit."""

import copy
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import warnings

import pytest
import torch
from test_reports import _environment
from training import make, same, train

import jitstep
from jitstep import _core
from jitstep.__main__ import tool

CASES = [
    ("adamw", torch.float32, {}),
    ("adamw", torch.float32, {"state": "int8", "min_quantized_size": 0}),
    ("adamw", torch.bfloat16, {"state": {"exp_avg": "int4", "exp_avg_sq": "bf16"}, "weights": "split16", "seed": 3}),
    ("adam", torch.float32, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("sgd", torch.float32, {"lr": 0.1, "momentum": 0.9, "state": "fp8"}),
    ("adafactor", torch.float32, {}),
    ("nadam", torch.float64, {}),
    ("prodigy", torch.float32, {}),
    ("schedulefree_adamw", torch.float32, {"state": "bf16"}),
    ("soap", torch.float32, {"precondition_frequency": 2}),
]


def program(name):
    """A program next to the command-line tool, or None."""
    found = tool() and pathlib.Path(tool()).resolve().with_name(name)
    return found if found and found.exists() else None


def continued(rule, dtype, options, through):
    """Networks after steps with the optimizer, and with another one that gets its state by `through`."""
    net = make(dtype)
    optimizer = jitstep.Optimizer(rule, net.parameters(), **options)
    train(net, optimizer, 3)
    other_net = make(dtype)
    other_net.load_state_dict(net.state_dict())
    other = jitstep.Optimizer(rule, other_net.parameters(), **options)
    read = through(optimizer.state_dict())
    assert read["param_groups"][0]["rule"] == ("adamw" if rule == "adam" else rule)
    other.load_state_dict(read)
    train(net, optimizer, 2, seed=5)
    train(other_net, other, 2, seed=5)
    return net, other_net


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("rule", ["adafactor", "nadam", "came", "novograd", "soap"])
def test_an_archive_of_a_copied_optimizer_has_its_auxiliary_state(tmp_path, rule, copied):
    net = make()
    optimizer = jitstep.Optimizer(rule, net.parameters())
    train(net, optimizer, 2)
    for name, one in (("own", optimizer), ("copy", copied(optimizer))):
        jitstep.write_archive(tmp_path / name, one.state_dict())
    own, other = (plain(jitstep.read_archive(tmp_path / name)["state"]) for name in ("own", "copy"))
    assert own == other


def test_auxiliary_state_without_sizes_is_not_left_out_of_an_archive(tmp_path):
    net = make()
    optimizer = jitstep.NAdam(net.parameters())
    train(net, optimizer, 1)
    state = optimizer.state_dict()
    del state["state"][0]["sizes"]
    with pytest.raises(ValueError, match="mu_product"):
        jitstep.write_archive(tmp_path / "a.pt", state)
    assert not (tmp_path / "a.pt").exists()


def test_an_archive_names_the_dtype_that_the_residual_was_made_for(tmp_path):
    net = make(torch.bfloat16)
    optimizer = jitstep.AdamW(net.parameters(), weights="split8")
    train(net, optimizer, 2)
    net.half()
    jitstep.write_archive(tmp_path / "a.pt", optimizer.state_dict())
    other_net = make(torch.float16)
    other_net.load_state_dict(net.state_dict())
    other = jitstep.AdamW(other_net.parameters(), weights="split8")
    with pytest.warns(UserWarning, match="without the residual"):
        other.load_state_dict(jitstep.read_archive(tmp_path / "a.pt"))
    assert all(torch.equal(w, p.float()) for w, p in zip(other.fp32_weights(), net.parameters(), strict=True))


@pytest.mark.parametrize(("rule", "dtype", "options"), CASES, ids=str)
def test_an_archive_continues_bit_for_bit(tmp_path, rule, dtype, options):
    def through(state):
        jitstep.write_archive(tmp_path / "a.pt", state)
        return jitstep.read_archive(tmp_path / "a.pt")

    assert same(*continued(rule, dtype, options, through))


@pytest.mark.parametrize("slot", ["v", "exp_avg_sq"])
def test_slots_without_a_format_of_their_own_keep_that_of_the_group_in_an_archive_of_cpp(slot):
    text = '{"state": {"codec": "int8"}, "slots": {"' + slot + '": {"codec": "fp32"}}}'
    read = _core.formats_from_json(text, "adamw")
    int8 = {"codec": "int8"}
    assert read == {"state": {"exp_avg": int8, slot: {"codec": "fp32"}, "max_exp_avg_sq": int8}}
    optimizer = jitstep.Optimizer("adamw", make().parameters(), **read, min_quantized_size=0)
    formats = optimizer.formats_of(optimizer.param_groups[0]["params"][0])
    assert [formats.slots[name]["codec"] for name in ("exp_avg", "exp_avg_sq")] == ["int8", "fp32"]


def test_a_format_of_the_group_is_not_that_of_slots_whose_rule_has_chosen_one():
    text = '{"state": {"codec": "int8"}, "slots": {"exp_avg": {"codec": "bf16"}}}'
    read = _core.formats_from_json(text, "adan")["state"]
    assert read["exp_avg"] == {"codec": "bf16"}
    assert set(_core.describe("adan")["slots"]) - set(read) == {"pre_grad"}


def a_state():
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=0)
    train(net, optimizer, 1)
    return optimizer.state_dict()


def test_an_archive_is_written_through_a_link_and_keeps_the_mode_of_the_file(tmp_path):
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk/a.pt", tmp_path / "a.pt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("disk/a.pt")
    jitstep.write_archive(link, a_state())
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert jitstep.read_archive(target)["state"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular file"):
        jitstep.write_archive(tmp_path / "pipe", a_state())


def test_an_archive_does_not_depend_on_the_default_device(tmp_path):
    state = a_state()
    with torch.device("meta"):
        jitstep.write_archive(tmp_path / "a.pt", state)
        read = jitstep.read_archive(tmp_path / "a.pt")
    assert read["state"][0]["step"].item() == 1
    assert len(read["param_groups"][0]["params"]) == 4


@pytest.mark.skipif(program("jitstep-convert") is None, reason="jitstep-convert is not built")
def test_a_folder_of_many_parts_needs_few_open_files(tmp_path):
    jitstep.write_archive(tmp_path / "a.pt", a_state())
    command = [program("jitstep-convert"), tmp_path / "a.pt", tmp_path / "parts", "--ranks", "150"]
    subprocess.run(command, check=True)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(name) for name in os.listdir("/proc/self/fd")) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        read = jitstep.read_archive(tmp_path / "parts")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    wanted = jitstep.read_archive(tmp_path / "a.pt")
    assert torch.equal(read["state"][0]["exp_avg.codes"], wanted["state"][0]["exp_avg.codes"])


@pytest.mark.skipif(program("jitstep-convert") is None, reason="jitstep-convert is not built")
@pytest.mark.parametrize(("rule", "dtype", "options"), CASES, ids=str)
def test_cpp_loads_and_saves_an_archive_of_python(tmp_path, rule, dtype, options):
    def through(state):
        jitstep.write_archive(tmp_path / "a.pt", state)
        command = [program("jitstep-convert"), tmp_path / "a.pt", tmp_path / "b.pt"]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return jitstep.read_archive(tmp_path / "b.pt")

    assert same(*continued(rule, dtype, options, through))


@pytest.mark.skipif(program("jitstep-convert") is None, reason="jitstep-convert is not built")
@pytest.mark.parametrize(("rule", "dtype", "options"), CASES, ids=str)
def test_a_folder_of_cpp_continues_bit_for_bit(tmp_path, rule, dtype, options):
    def through(state):
        jitstep.write_archive(tmp_path / "a.pt", state)
        command = [program("jitstep-convert"), tmp_path / "a.pt", tmp_path / "parts", "--ranks", "3"]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return jitstep.read_archive(tmp_path / "parts")

    assert same(*continued(rule, dtype, options, through))


@pytest.mark.skipif(program("jitstep-convert") is None, reason="jitstep-convert is not built")
def test_a_damaged_folder_of_cpp_is_an_error_that_names_the_file(tmp_path):
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=0)
    train(net, optimizer, 1)
    jitstep.write_archive(tmp_path / "a.pt", optimizer.state_dict())
    folder = tmp_path / "parts"
    subprocess.run([program("jitstep-convert"), tmp_path / "a.pt", folder, "--ranks", "2"], check=True)
    with pytest.raises(ValueError, match="index of a folder"):
        jitstep.read_archive(folder / "index.pt")
    part = next(path for path in folder.iterdir() if "-0-of-2" in path.name)
    whole = part.read_bytes()
    for damage in (whole[:1000], whole.replace(b'"part":0', b'"part":1'), whole.replace(b'"schema":1', b'"schema":2')):
        part.write_bytes(damage)
        with pytest.raises(ValueError, match=part.name):
            jitstep.read_archive(folder)
    part.unlink()
    with pytest.raises(ValueError, match=part.name):
        jitstep.read_archive(folder)
    (folder / "index.pt").unlink()
    with pytest.raises(ValueError, match=r"no file index\.pt"):
        jitstep.read_archive(folder)


def run_tool(*arguments):
    command = [sys.executable, "-m", "jitstep", "convert", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=_environment())


def test_the_tool_converts_both_ways(tmp_path):
    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=0)
    train(net, optimizer, 2)
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "python.pt")
    made = run_tool(tmp_path / "python.pt", tmp_path / "cpp.pt", "--to", "c++")
    assert made.returncode == 0, made.stderr
    assert "adamw, 4 parameters with state" in made.stdout
    made = run_tool(tmp_path / "cpp.pt", tmp_path / "back.pt", "--to", "python")
    assert made.returncode == 0, made.stderr
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    for number, held in optimizer.state_dict()["state"].items():
        for name, value in held.items():
            found = back["state"][number][name]
            assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value


@pytest.mark.parametrize("kind", ["c++", "python"])
def test_a_conversion_that_cannot_be_written_leaves_no_file(tmp_path, kind):
    p = torch.nn.Parameter(torch.ones(10000))
    optimizer = jitstep.AdamW([p])
    optimizer.init_state()
    source = tmp_path / "source"
    if kind == "c++":
        torch.save(optimizer.state_dict(), source)
    else:
        jitstep.write_archive(source, optimizer.state_dict())
    (tmp_path / "new").mkdir()
    limits = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    limits += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from jitstep.__main__ import main; main()"
    command = [sys.executable, "-c", limits, "convert", str(source), str(tmp_path / "new/target"), "--to", kind]
    made = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert made.returncode == 1
    assert "new/target" in made.stderr and "Traceback" not in made.stderr
    assert list((tmp_path / "new").iterdir()) == []


def test_the_tool_refuses_a_file_without_groups(tmp_path):
    torch.save({"param_groups": [], "state": {}}, tmp_path / "empty.pt")
    made = run_tool(tmp_path / "empty.pt", tmp_path / "target.pt", "--to", "c++")
    assert made.returncode == 1
    assert "empty.pt" in made.stderr and "Traceback" not in made.stderr


def test_the_tool_changes_formats_and_the_kind_of_a_file_in_two_calls(tmp_path):
    optimizer = jitstep.AdamW(make().parameters())
    torch.save(optimizer.state_dict(), tmp_path / "python.pt")
    made = run_tool(tmp_path / "python.pt", tmp_path / "cpp.pt", "--to", "cpp", "--state", "int8")
    assert made.returncode == 2
    assert "--state" in made.stderr and "without --to" in made.stderr
    made = run_tool(tmp_path / "python.pt", tmp_path / "cpp.pt", "--to", "cpp")
    assert made.returncode == 0, made.stderr
    assert jitstep.read_archive(tmp_path / "cpp.pt")["param_groups"][0]["rule"] == "adamw"


def test_the_tool_loads_the_rule_of_a_checkpoint(tmp_path):
    text = (pathlib.Path(__file__).parents[2] / "examples/signum.cuh").read_text().replace("signum", "own_signum")
    (tmp_path / "own_signum.cuh").write_text(text.replace("Signum", "OwnSignum"))
    net = make()
    optimizer = jitstep.load_rule(tmp_path / "own_signum.cuh")(net.parameters())
    train(net, optimizer, 1)
    torch.save(optimizer.state_dict(), tmp_path / "python.pt")
    made = run_tool(tmp_path / "python.pt", tmp_path / "cpp.pt", "--to", "c++")
    assert made.returncode == 1
    assert "--load" in made.stderr
    made = run_tool(tmp_path / "python.pt", tmp_path / "cpp.pt", "--to", "c++", "--load", tmp_path / "own_signum.cuh")
    assert made.returncode == 0, made.stderr
    assert jitstep.read_archive(tmp_path / "cpp.pt")["state"].keys() == optimizer.state_dict()["state"].keys()


def test_the_tool_says_what_is_wrong_with_a_file(tmp_path):
    (tmp_path / "text.pt").write_text("no checkpoint")
    (tmp_path / "empty.pt").write_text("")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"o": {"param_groups": [], "state": {}}}, tmp_path / "held.pt")
    for arguments in (["text.pt"], ["empty.pt"], ["list.pt"], ["held.pt", "--key", "optim"]):
        made = run_tool(tmp_path / arguments[0], tmp_path / "out.pt", "--to", "python", *arguments[1:])
        assert made.returncode == 1
        assert made.stderr.startswith("jitstep: ") and arguments[0] in made.stderr, made.stderr
        assert "Traceback" not in made.stderr
        assert not (tmp_path / "out.pt").exists()


def test_a_file_that_is_no_archive_is_refused_and_nothing_is_written(tmp_path):
    torch.save({"state": {}, "param_groups": [{"params": []}]}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="is not an archive"):
        jitstep.read_archive(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="does not name its rule"):
        jitstep.write_archive(tmp_path / "b.pt", torch.load(tmp_path / "a.pt"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt"]


def test_a_checkpoint_of_python_is_told_from_an_archive(tmp_path):
    torch.save({"state": {}, "param_groups": []}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"a checkpoint of Python.*torch\.load"):
        jitstep.read_archive(tmp_path / "a.pt")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_the_umask_decides_who_may_read_an_archive_and_reading_warns_of_nothing(tmp_path, umask):
    net = make()
    state = jitstep.AdamW(net.parameters()).state_dict()
    before = os.umask(umask)
    try:
        jitstep.write_archive(tmp_path / "a.pt", state)
        jitstep.write_archive(tmp_path / "a.pt", state)
    finally:
        os.umask(before)
    assert (tmp_path / "a.pt").stat().st_mode & 0o777 == 0o666 & ~umask
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jitstep.read_archive(tmp_path / "a.pt")


def test_an_archive_of_values_names_the_formats_of_the_group(tmp_path):
    p = torch.nn.Parameter(torch.ones(64, 128))
    optimizer = jitstep.AdamW([p], state={"exp_avg": "int8"})
    p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.save_values = True
    jitstep.write_archive(tmp_path / "a.pt", optimizer.state_dict())
    assert jitstep.read_archive(tmp_path / "a.pt")["param_groups"][0]["state"] == {"exp_avg": {"codec": "int8"}}


def test_whole_numbers_of_options_stay_whole_in_an_archive(tmp_path):
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = jitstep.SOAP([p], precondition_frequency=3, lr=1)
    jitstep.write_archive(tmp_path / "a.pt", optimizer.state_dict())
    group = jitstep.read_archive(tmp_path / "a.pt")["param_groups"][0]
    assert type(group["precondition_frequency"]) is int and group["precondition_frequency"] == 3
    assert type(group["lr"]) is float


def plain(state):
    """A state with lists in place of tensors."""
    return {
        number: {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in entries.items()}
        for number, entries in state.items()
    }


@pytest.mark.parametrize("state", ["fp32", "int8"])
def test_an_archive_of_a_distributed_checkpoint_has_numbers_in_place_of_names(tmp_path, state):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    net = make()
    optimizer = jitstep.AdamW(net.parameters(), state=state, min_quantized_size=0)
    train(net, optimizer, 2)
    named = get_optimizer_state_dict(net, optimizer, options=StateDictOptions(full_state_dict=True))
    for name, content in (("named.pt", named), ("numbered.pt", optimizer.state_dict())):
        jitstep.write_archive(tmp_path / name, content)
    first, second = (jitstep.read_archive(tmp_path / name) for name in ("named.pt", "numbered.pt"))
    assert [group["params"] for group in first["param_groups"]] == [group["params"] for group in second["param_groups"]]
    assert plain(first["state"]) == plain(second["state"])
