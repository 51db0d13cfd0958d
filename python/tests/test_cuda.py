"""Parameters on an NVIDIA GPU: the bits of the CPU, and everything that torch.optim's optimizers can do there.

All tests need a GPU, or its emulation: see cuda_device.py.
"""

import copy
import os
import pathlib
import pickle
import subprocess
import sys

import pytest
import torch
from cuda_device import EMULATED, EXISTS
from training import assert_close, make, resumed

import jitstep
from jitstep import _core

pytestmark = pytest.mark.skipif(not EXISTS, reason="there is no GPU")
needs_gpu = pytest.mark.skipif(EMULATED, reason="the emulation has one stream, and no storage that Python can make")

GPU = torch.device("cuda", 0)
SHAPES = [(), (0,), (1,), (7,), (33, 65), (4099,), (2, 3, 5)]
LARGE = [(257, 33), (5000,)]  # quantized by default


def parameters(device, shapes=SHAPES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s, generator=generator).to(dtype).to(device)) for s in shapes]


def give_gradients(params, seed):
    generator = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator).to(p.dtype).to(p.device)


def train(params, optimizer, steps=3, seed=2):
    for i in range(steps):
        give_gradients(params, seed + i)
        optimizer.step()


def on_both(make_optimizer, shapes=SHAPES, dtype=torch.float32, steps=3):
    """Optimizers of the same parameters on the CPU and on the GPU, after steps with the same gradients."""
    optimizers = []
    for device in ("cpu", GPU):
        params = parameters(device, shapes, dtype)
        optimizers.append(make_optimizer(params))
        train(params, optimizers[-1], steps)
    return optimizers


def run_program(program, **variables):
    """A program in its own process, which may import these modules."""
    environment = {**os.environ, **variables}
    environment["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(__file__).parent), environment.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


def params_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def bits(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b))


def assert_same(ours, theirs):
    """Equal parameters and state, in every bit."""
    for number, (p, q) in enumerate(zip(params_of(ours), params_of(theirs), strict=True)):
        assert same_bits(p, q), f"parameter {number} {list(p.shape)}"
        held, other = ours.state[p], theirs.state[q]
        assert held.keys() == other.keys()
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                assert same_bits(value, other[name]), f"{name} of parameter {number} {list(p.shape)}"
            else:
                assert value == other[name]


# ---- bits


@pytest.mark.parametrize("state", [None, "int8", "int4"])
def test_adamw_has_the_bits_of_the_cpu(state):
    assert_same(*on_both(lambda ps: jitstep.AdamW(ps, lr=1e-2, state=state, min_quantized_size=0), SHAPES + LARGE))


@pytest.mark.long
@pytest.mark.parametrize("state", _core.codecs())
def test_every_state_format_has_the_bits_of_the_cpu(state):
    assert_same(*on_both(lambda ps: jitstep.AdamW(ps, lr=1e-2, state=state, min_quantized_size=0), LARGE))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weights", _core.weight_formats())
def test_every_weight_format_has_the_bits_of_the_cpu(weights, dtype):
    def optimizer(params):
        return jitstep.AdamW(params, lr=1e-2, weights=weights, seed=3)

    assert_same(*on_both(optimizer, LARGE, dtype))


@pytest.mark.parametrize("rule", ["LAMB", "Lion"])
def test_a_rule_has_the_bits_of_the_cpu(rule):
    assert_same(*on_both(lambda ps: getattr(jitstep, rule)(ps, lr=1e-2)))


@pytest.mark.long
@pytest.mark.parametrize("rule", [r for r in _core.rules() if not _core.describe(r)["transforms"]])
def test_every_rule_has_the_bits_of_the_cpu(rule):
    def optimizer(params):
        return jitstep.Optimizer(rule, params)

    assert_same(*on_both(optimizer, [(33, 65), (64, 7)]))


@pytest.mark.parametrize("weights", ["stochastic", "kahan"])
def test_bfloat16_weights_have_the_bits_of_the_cpu(weights):
    def optimizer(params):
        return jitstep.AdamW(params, lr=1e-2, weights=weights, seed=3)

    cpu, gpu = on_both(optimizer, dtype=torch.bfloat16)
    assert_same(cpu, gpu)
    for a, b in zip(cpu.fp32_weights(), gpu.fp32_weights(), strict=True):
        assert same_bits(a, b)


def test_muon_is_close_to_the_cpu():
    cpu, gpu = on_both(lambda ps: jitstep.Muon(ps, lr=1e-2, ns_dtype="real"), [(48, 32), (32, 64)])
    for p, q in zip(params_of(cpu), params_of(gpu), strict=True):
        torch.testing.assert_close(p, q.cpu(), rtol=1e-2, atol=1e-3)
    assert all(value.device == GPU for p in params_of(gpu) for n, value in gpu.state[p].items() if n != "step")


def test_shared_state_is_on_the_gpu_and_in_checkpoints():
    cpu, gpu = on_both(lambda ps: jitstep.Prodigy(ps), [(33, 65), (7,)])
    assert_same(cpu, gpu)
    assert cpu._stepper.shared_state() == gpu._stepper.shared_state() != []
    for source, device in ((cpu, GPU), (gpu, "cpu")):
        params = [torch.nn.Parameter(p.detach().to(device)) for p in params_of(source)]
        other = jitstep.Prodigy(params)
        other.load_state_dict(source.state_dict())
        train(params, other, 2, seed=9)
        train(params_of(source), source, 2, seed=9)
        assert_same(other, source)


@pytest.mark.parametrize("rule", ["ScheduleFreeAdamW"])
def test_modes_switch_on_the_gpu(rule):
    optimizers = on_both(lambda ps: getattr(jitstep, rule)(ps, lr=1e-2))
    for one in optimizers:
        one.eval()
    assert_same(*optimizers)
    for one in optimizers:
        one.train()
        train(params_of(one), one, 2, seed=5)
    assert_same(*optimizers)


# ---- forms of tensors


def test_views_and_tensors_with_gaps_have_the_bits_of_the_cpu():
    def run(device):
        generator = torch.Generator().manual_seed(1)
        whole = torch.randn(40, 66, generator=generator).to(device)
        params = [
            torch.nn.Parameter(whole[:, :33]),  # gaps
            torch.nn.Parameter(whole[1:5, 40:50].t()),  # transposed, with gaps
            torch.nn.Parameter(torch.randn(9, 5, generator=generator).to(device).t()),
            torch.nn.Parameter(torch.randn(101, generator=generator).to(device)[1:]),  # not aligned to 16 bytes
        ]
        optimizer = jitstep.AdamW(params, lr=1e-2)
        for i in range(3):
            give_gradients(params, 3 + i)
            params[2].grad = params[2].grad.t().contiguous().t()
            optimizer.step()
        return optimizer, whole

    (cpu, a), (gpu, b) = run("cpu"), run(GPU)
    assert_same(cpu, gpu)
    assert same_bits(a, b)


def test_gradients_of_another_dtype_and_of_changing_alignment_have_the_bits_of_the_cpu():
    optimizers = []
    for device in ("cpu", GPU):
        params = parameters(device, [(64,), (33, 3)])
        optimizer = jitstep.AdamW(params, lr=1e-2)
        for p in params:
            p.grad_dtype = None
        for i in range(4):
            for p in params:
                memory = torch.randn(p.numel() + i, generator=torch.Generator().manual_seed(i)).to(device)
                memory = memory.to(torch.bfloat16) if i % 2 else memory
                p.grad = memory[i:].view(p.shape)
            optimizer.step()
        optimizers.append(optimizer)
    assert_same(*optimizers)


def test_complex_parameters_have_the_bits_of_the_cpu():
    def run(device):
        generator = torch.Generator().manual_seed(1)
        p = torch.nn.Parameter(torch.randn(9, 4, dtype=torch.complex64, generator=generator).to(device))
        optimizer = jitstep.Adam([p], lr=1e-2)
        for _ in range(2):
            p.grad = torch.randn(9, 4, dtype=torch.complex64, generator=generator).to(device)
            optimizer.step()
        return torch.view_as_real(p.detach().cpu())

    assert same_bits(run("cpu"), run(GPU))


def test_tensors_and_streams_are_found_without_dlpack():
    _core.use_exchange(None)
    try:
        assert_same(*on_both(lambda ps: jitstep.AdamW(ps, lr=1e-2)))
    finally:
        _core.use_exchange(getattr(torch.Tensor, "__dlpack_c_exchange_api__", None))


def test_many_tensors_take_few_launches():
    cpu, gpu = on_both(lambda ps: jitstep.AdamW(ps, lr=1e-2), [(5,)] * 700, steps=2)
    assert_same(cpu, gpu)
    give_gradients(params_of(gpu), 8)
    before = _core.launch_count()
    gpu.step()
    assert _core.launch_count() - before == 1


def test_parameters_without_a_gradient_stay_and_return():
    optimizers = []
    for device in ("cpu", GPU):
        params = parameters(device, [(33,), (5, 7), (9,)])
        optimizer = jitstep.AdamW(params, lr=1e-2)
        for i in range(4):
            give_gradients(params, i)
            params[i % 3].grad = None
            optimizer.step()
        for p in params:
            p.grad = None
        optimizer.step()
        optimizers.append(optimizer)
    assert_same(*optimizers)


def test_other_memory_of_a_parameter_is_used():
    optimizers = []
    for device in ("cpu", GPU):
        params = parameters(device, [(33,), (5, 7)])
        optimizer = jitstep.AdamW(params, lr=1e-2)
        train(params, optimizer, 2)
        for p in params:
            p.data = p.data.clone()
        train(params, optimizer, 2)
        optimizers.append(optimizer)
    assert_same(*optimizers)


# ---- several devices


def test_parameters_of_the_cpu_and_the_gpu_step_together():
    cpu = parameters("cpu")
    mixed = [torch.nn.Parameter(p.detach().to(GPU if i % 2 else "cpu")) for i, p in enumerate(cpu)]
    ours, theirs = jitstep.AdamW(mixed, lr=1e-2), jitstep.AdamW(cpu, lr=1e-2)
    train(mixed, ours)
    train(cpu, theirs)
    assert_same(ours, theirs)
    assert {report.target.partition("_")[0] for report in ours.kernels()} == {"cpu", "sm"}


def test_sums_over_all_parameters_are_refused_on_several_devices():
    params = [*parameters("cpu", [(5,)]), *parameters(GPU, [(5,)])]
    give_gradients(params, 1)
    before = [p.detach().clone() for p in params]
    with pytest.raises(ValueError, match="max_grad_norm"):
        jitstep.AdamW(params, max_grad_norm=1.0).step()
    assert all(same_bits(p, q) for p, q in zip(params, before, strict=True))


def test_a_model_moved_to_the_gpu_keeps_its_state():
    reference = make()
    ours = jitstep.AdamW(reference.parameters(), state="int8")
    train(params_of(ours), ours)
    net = copy.deepcopy(reference)
    moved = jitstep.AdamW(net.parameters(), state="int8")
    moved.load_state_dict(ours.state_dict())
    net.to(GPU)
    train(params_of(moved), moved)
    train(params_of(ours), ours)
    assert_same(ours, moved)


@pytest.mark.long
def test_without_nvrtc_the_error_says_how_to_install_it(tmp_path):
    program = """
import cuda_device, torch, jitstep
p = torch.nn.Parameter(torch.ones(3, device="cuda")); p.grad = torch.ones_like(p)
try:
    jitstep.AdamW([p]).step()
except jitstep.Error as error:
    print(error)
"""
    done = run_program(program, JITSTEP_NVRTC=str(tmp_path / "none"), JITSTEP_CACHE_DIR=str(tmp_path))
    assert "JITSTEP_NVRTC" in done.stdout, done.stderr


# ---- options


def test_clipping_has_the_bits_of_the_cpu():
    assert_same(*on_both(lambda ps: jitstep.AdamW(ps, lr=1e-2, max_grad_norm=0.5)))


@pytest.mark.parametrize("fused", [None, True])
def test_a_grad_scaler_on_the_gpu_equals_one_on_the_cpu(fused):
    optimizers = []
    for device in ("cpu", "cuda"):
        params = parameters(device)
        optimizer = jitstep.AdamW(params, lr=1e-2, fused=fused)
        scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=1)
        for i in range(4):
            scaler.scale(torch.ones((), device=device))  # makes the scale
            give_gradients(params, i)
            for p in params:
                p.grad.mul_(1024.0)
            if i == 2:
                params[3].grad[0] = float("inf")
            scaler.step(optimizer)
            scaler.update(1024.0)
        optimizers.append(optimizer)
        assert int(optimizer.state[params[3]]["step"]) == 3
    assert_same(*optimizers)
    for p, q in zip(*map(params_of, optimizers), strict=True):
        assert same_bits(p.grad, q.grad)


@needs_gpu
def test_a_scaled_step_of_parameters_on_both_devices_reads_one_scale():
    params = [*parameters("cpu", [(9,)]), *parameters(GPU, [(9,)])]
    optimizer = jitstep.AdamW(params, lr=1e-2, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.full((1,), 4.0, device=GPU), torch.zeros(1, device=GPU)
    give_gradients(params, 1)
    params[1].grad = params[0].grad.to(GPU)
    optimizer.step()
    assert same_bits(*params)


def test_an_lr_on_the_gpu_is_read():
    cpu, gpu = on_both(lambda ps: jitstep.AdamW(ps, lr=torch.tensor(3e-3, device=ps[0].device)))
    assert_same(cpu, gpu)


def test_inputs_of_a_rule_are_read_on_the_gpu():
    optimizers = []
    for device in ("cpu", GPU):
        params = parameters(device, [(33, 5)])
        optimizer = jitstep.Sophia(params)
        for i in range(3):
            give_gradients(params, i)
            optimizer.set_input(params[0], "hessian", params[0].grad.square())
            optimizer.step()
        optimizers.append(optimizer)
    assert_same(*optimizers)


def test_host_transforms_get_values_on_the_gpu():
    seen = []
    name = f"seen_{len(jitstep.transforms._transforms)}"
    jitstep.register_parameter_transform(name, lambda call: seen.append((call.values.device, call.step)))
    params = parameters(GPU, [(16, 8)])
    optimizer = jitstep.Muon(params)
    optimizer._description = {**optimizer._description, "transforms": [name]}
    train(params, optimizer, 2)
    assert seen == [(GPU, 1), (GPU, 2)]


def check_tuning(configurations=None):
    """Steps have the bits of the CPU until this many configurations are tried. Default: all."""
    params, on_cpu = (parameters(device, [(300,), (33, 3)]) for device in (GPU, "cpu"))
    tuned, plain = jitstep.Lion(params, lr=1e-3), jitstep.Lion(on_cpu, lr=1e-3)
    tuned.tune(progress=False)
    for step in range(2000):
        for of_device, optimizer in ((params, tuned), (on_cpu, plain)):
            train(of_device, optimizer, 1, seed=step)
        tried, candidates = tuned.tuning_progress()
        if candidates and tried >= (configurations or candidates):
            break
    assert 2 < tried <= candidates
    assert (tried == candidates) == (configurations is None)
    assert_same(plain, tuned)


def test_a_gradient_on_another_device_is_refused():
    p = torch.nn.Parameter(torch.ones(5, device=GPU))
    p.grad = torch.ones(5, device=GPU)
    optimizer = jitstep.SGD([p], lr=1.0)
    p.data = torch.ones(5)
    with pytest.raises(ValueError, match="its gradient is on cuda:0, and the parameter is on cpu"):
        optimizer.step()
    optimizer.zero_grad()
    p.grad = torch.ones(5)
    optimizer.step()
    assert torch.equal(p, torch.zeros(5))


def test_tuning_keeps_the_bits_of_the_cpu():
    check_tuning(3)


@pytest.mark.long
def test_a_complete_tuning_keeps_the_bits_of_the_cpu(tmp_path):
    """In a cache folder of its own: where a tuning has ended, the next one has no candidates."""
    program = "import cuda_device, test_cuda; test_cuda.check_tuning()"
    done = run_program(program, JITSTEP_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "lion" in (tmp_path / "tuning.jsonl").read_text()


# ---- checkpoints and copies


@pytest.mark.parametrize("options", [{}, {"state": "int8"}, {"state": "int4", "weights": "kahan"}])
def test_a_checkpoint_goes_from_gpu_to_cpu_to_gpu(options):
    dtype = torch.bfloat16 if "weights" in options else torch.float32

    def optimizer(params):
        return jitstep.AdamW(params, lr=1e-2, **options)

    params = parameters(GPU, LARGE, dtype)
    first = optimizer(params)
    train(params, first)
    there = [torch.nn.Parameter(p.detach().cpu()) for p in params]
    second = optimizer(there)
    second.load_state_dict(first.state_dict())
    assert all(v.device.type == "cpu" for held in second.state.values() for v in held.values() if torch.is_tensor(v))
    back = [torch.nn.Parameter(p.detach().to(GPU)) for p in there]
    third = optimizer(back)
    third.load_state_dict(second.state_dict())
    for one in (first, second, third):
        train(params_of(one), one, 2, seed=7)
    assert_same(first, second)
    assert_same(first, third)


def test_state_is_converted_between_formats_on_the_gpu():
    held = []
    for device in ("cpu", GPU):
        params = parameters(device, LARGE)
        narrow = jitstep.AdamW(params, lr=1e-2, state="int8")
        train(params, narrow)
        for state in (None, "int4"):
            wide = jitstep.AdamW(params, lr=1e-2, state=state)
            with pytest.warns(UserWarning, match="converted"):
                wide.load_state_dict(narrow.state_dict())
            held.append(wide)
    assert_same(held[0], held[2])
    assert_same(held[1], held[3])
    assert same_bits(held[0].value(params_of(held[0])[0], "exp_avg"), held[2].value(params_of(held[2])[0], "exp_avg"))


def test_a_checkpoint_of_torchs_optimizer_on_the_gpu_resumes():
    params = parameters(GPU, [(33, 5), (9,)])
    theirs = torch.optim.AdamW(params, foreach=False)
    train(params, theirs)
    for entries in theirs.state.values():
        entries["step"] = entries["step"].to(GPU)  # as with capturable=True and fused=True
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    ours = jitstep.AdamW(copies)
    ours.load_state_dict(theirs.state_dict())
    train(params, theirs, 2, seed=6)
    train(copies, ours, 2, seed=6)
    for p, q in zip(params, copies, strict=True):
        torch.testing.assert_close(p.cpu(), q.cpu(), rtol=2e-5, atol=2e-6)
    assert all(int(ours.state[p]["step"]) == 5 for p in copies)


@needs_gpu
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_continue_with_the_same_bits(copied):
    params = parameters(GPU, LARGE)
    optimizer = jitstep.AdamW(params, lr=1e-2, state="int8")
    train(params, optimizer)
    other = copied(optimizer)
    assert all(p.device == GPU and p is not q for p, q in zip(params_of(other), params, strict=True))
    train(params_of(other), other, 2, seed=5)
    train(params, optimizer, 2, seed=5)
    assert_same(optimizer, other)


def test_archives_of_cpp_are_written_from_the_gpu(tmp_path):
    params = parameters(GPU, LARGE)
    optimizer = jitstep.AdamW(params, lr=1e-2, state="int8")
    train(params, optimizer)
    jitstep.write_archive(tmp_path / "archive.pt", optimizer.state_dict())
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    other = jitstep.AdamW(copies, lr=1e-2, state="int8")
    other.load_state_dict(jitstep.read_archive(tmp_path / "archive.pt"))
    for one in (optimizer, other):
        train(params_of(one), one, 2, seed=5)
    assert_same(optimizer, other)


def test_reports_name_the_gpus_kernel_and_memory():
    params = parameters(GPU, [(1024,)])
    optimizer = jitstep.AdamW(params)
    optimizer.compile(progress=False)
    assert [r.target.partition("_")[0] for r in optimizer.kernels()] == ["sm"]
    train(params, optimizer, 1)
    report = optimizer.memory_report()
    assert report.bytes_of("parameters") == 4096
    assert report.bytes_of("exp_avg") == 4096


# ---- in training


def net_pair():
    """The same network on the CPU and on the GPU."""
    return make(), make().to(GPU)


def train_net(net, optimizer, steps=4, sums=None, zero=True):
    device = next(net.parameters()).device
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 64, generator=generator).to(device)
        loss = (net(x) - x.sin()).pow(2).mean()
        loss.backward()
        if sums is not None:
            sums.assign_gradients()
        if optimizer is not None:
            optimizer.step()
        if zero:
            net.zero_grad()
        losses.append(loss.detach().cpu().item())
    return losses


def test_a_model_of_torch_nn_trains():
    cpu, gpu = net_pair()
    a = train_net(cpu, jitstep.AdamW(cpu.parameters(), lr=1e-2))
    b = train_net(gpu, jitstep.AdamW(gpu.parameters(), lr=1e-2))
    assert a[-1] < a[0]
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_it_follows_torchs_optimizer_on_the_gpu():
    ours, theirs = make().to(GPU), make().to(GPU)
    options = {"lr": 1e-2, "weight_decay": 0.1}
    train_net(ours, jitstep.AdamW(ours.parameters(), **options))
    train_net(theirs, torch.optim.AdamW(theirs.parameters(), foreach=False, **options))
    assert_close(ours, theirs)


@needs_gpu
def test_a_checkpoint_of_a_model_resumes():
    net = make().to(GPU)
    optimizer = jitstep.AdamW(net.parameters(), state="int8")
    train_net(net, optimizer, 2)
    other, resumed_optimizer = resumed(
        net, optimizer, lambda copy: jitstep.AdamW(copy.to(GPU).parameters(), state="int8")
    )
    train_net(net, optimizer, 2)
    train_net(other, resumed_optimizer, 2)
    assert_same(optimizer, resumed_optimizer)


def test_steps_in_backward_equal_steps_after_it():
    nets = [make().to(GPU), make().to(GPU)]
    after, during = (jitstep.AdamW(net.parameters(), lr=1e-2, state="int8") for net in nets)
    during.step_in_backward()
    train_net(nets[0], after, 3)
    train_net(nets[1], None, 3)
    assert_same(after, during)
    assert all(p.grad is None for p in nets[1].parameters())


@pytest.mark.parametrize("limit", [0, 1 << 28])
def test_gradients_accumulate_with_the_bits_of_the_cpu(limit):
    sums = []
    for device in ("cpu", GPU):
        params = parameters(device, [(33, 5), (9,), (64,)])
        one = jitstep.GradAccumulator(params, max_waiting_bytes=limit)
        generator = torch.Generator().manual_seed(3)
        for _ in range(3):
            gradients = [torch.randn(p.shape, generator=generator).to(device) for p in params]
            torch.autograd.backward([(p * g).sum() for p, g in zip(params, gradients, strict=True)])
        assert one.micro_batches == 3
        one.assign_gradients()
        sums.append([p.grad for p in params])
        one.close()
    assert all(same_bits(a, b) for a, b in zip(*sums, strict=True))
    assert all(g.device == GPU for g in sums[1])


def test_capturable_may_be_set_between_steps():
    params = parameters(GPU)
    optimizer = jitstep.AdamW(params)
    for capturable in (False, True, False):
        optimizer.param_groups[0]["capturable"] = capturable
        train(params, optimizer, 2)
        assert optimizer._stepper.counts_on_device() == capturable
        assert all((entries["step"].device == GPU) == capturable for entries in optimizer.state.values())
    assert [entries["step"].item() for entries in optimizer.state.values()] == len(params) * [6.0]


def test_gradients_accumulate_after_a_move_to_the_gpu():
    p = torch.nn.Parameter(torch.ones(64))
    sums = jitstep.GradAccumulator([p], dtype=torch.float32)
    for device in ("cpu", GPU):
        p.data = p.data.to(device)
        (p * 2.0).sum().backward()
        sums.assign_gradients()
        assert p.grad.device.type == p.device.type and p.grad.tolist() == 64 * [2.0]
        p.grad = None
    sums.close()


# ---- streams


@needs_gpu
def test_steps_on_changing_streams_are_ordered():
    params, others = parameters(GPU, [(1 << 20,), (333,)]), parameters(GPU, [(1 << 20,), (333,)])
    ours, expected = jitstep.AdamW(params, lr=1e-2, state="int8"), jitstep.AdamW(others, lr=1e-2, state="int8")
    streams = [torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()]
    torch.cuda.synchronize()
    for i in range(9):
        give_gradients(others, i)
        expected.step()
        with torch.cuda.stream(streams[i % 3]):
            give_gradients(params, i)
            ours.step()
    torch.cuda.synchronize()
    assert_same(ours, expected)


@needs_gpu
def test_a_step_does_not_wait_for_the_gpu():
    params = parameters(GPU, [(1 << 20,)])
    optimizer = jitstep.AdamW(params)
    train(params, optimizer, 2)
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000_000)
    optimizer.step()
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


@needs_gpu
def test_backward_on_another_stream_steps_and_accumulates():
    nets = [make().to(GPU), make().to(GPU)]
    after, during = (jitstep.AdamW(net.parameters(), lr=1e-2) for net in nets)
    during.step_in_backward()
    train_net(nets[0], after, 3)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        train_net(nets[1], None, 3)
    torch.cuda.synchronize()
    assert_same(after, during)


@needs_gpu
@pytest.mark.parametrize("limit", [0, 1 << 28])
def test_gradients_of_several_streams_accumulate(limit):
    def run(streams):
        params = parameters(GPU, [(1 << 20,), (333,)])
        sums = jitstep.GradAccumulator(params, dtype=torch.float32, max_waiting_bytes=limit)
        torch.cuda.synchronize()
        for i in range(4):
            parts = []
            for p, stream in zip(params, streams, strict=True):
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(10_000_000)
                    parts.append((p * (p + i)).sum())
                torch.cuda.current_stream().wait_stream(stream)
            sum(parts).backward()
        sums.assign_gradients()
        torch.cuda.synchronize()
        return [p.grad for p in params]

    current = torch.cuda.current_stream()
    for a, b in zip(run([current, current]), run([torch.cuda.Stream(), torch.cuda.Stream()]), strict=True):
        assert same_bits(a, b)


@needs_gpu
@pytest.mark.parametrize("index", [1])
def test_a_second_gpu_has_its_own_kernels(index):
    if torch.cuda.device_count() <= index:
        pytest.skip("there is one GPU")
    cpu, params = parameters("cpu"), parameters(torch.device("cuda", index))
    ours, theirs = jitstep.AdamW(params), jitstep.AdamW(cpu)
    train(params, ours)
    train(cpu, theirs)
    assert_same(ours, theirs)
