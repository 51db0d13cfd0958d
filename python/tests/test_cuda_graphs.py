"""Steps in CUDA graphs: each replay is a step, with the bits of ordinary steps on the CPU.

All tests need a GPU, or its emulation: see cuda_device.py. There, only kernels of jitstep are captured, so the test's
graph itself repeats what Python does after them.
"""

import contextlib
import ctypes

import pytest
import torch
from cuda_device import EMULATED, EXISTS
from test_cuda import GPU, assert_same, give_gradients, parameters, params_of, same_bits, train

import jitstep

pytestmark = pytest.mark.skipif(not EXISTS, reason="there is no GPU")


class EmulatedGraph:
    """The part of torch.cuda.CUDAGraph that the tests use, over the functions of the driver."""

    def __init__(self):
        self.driver, self.graph = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        self.after = []  # calls of _after_step, whose operations are torch's

    @contextlib.contextmanager
    def captured(self):
        graph = ctypes.c_void_p()
        assert self.driver.cuStreamBeginCapture_v2(None, 1) == 0
        try:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(jitstep.Optimizer, "_after_step", lambda *given: self.after.append(given))
                yield
        finally:
            assert self.driver.cuStreamEndCapture(None, ctypes.byref(graph)) == 0
        assert self.driver.cuGraphInstantiateWithFlags(ctypes.byref(self.graph), graph, ctypes.c_ulonglong(0)) == 0

    def replay(self):
        assert self.driver.cuGraphLaunch(self.graph, None) == 0
        for given in self.after:
            jitstep.Optimizer._after_step(*given)


class Graph(torch.cuda.CUDAGraph):
    @contextlib.contextmanager
    def captured(self):
        with torch.cuda.graph(self):
            yield


def new_graph():
    return EmulatedGraph() if EMULATED else Graph()


def captured_step(optimizer):
    """A graph of one step, which is not executed."""
    graph = new_graph()
    with graph.captured():
        optimizer.step()
    return graph


def set_gradients(params, seed):
    """Other values in the same memory, which the graph reads."""
    generator = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad.copy_(torch.randn(p.shape, generator=generator).to(p.dtype))


def twins(make, dtype=torch.float32):
    """The same optimizer on the CPU and on the GPU, after one step."""
    made = []
    for device in ("cpu", GPU):
        params = parameters(device, [(333,), (7,), (65, 70)], dtype)
        made.append(make(params))
        train(params, made[-1], 1)
    return made


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.float32, {}),
        (torch.float32, {"state": "int8", "min_quantized_size": 0, "betas": (0.8, 0.9)}),
        (torch.bfloat16, {"weights": "stochastic", "seed": 3}),
        (torch.float32, {"max_grad_norm": 0.5}),
    ],
)
def test_replays_have_the_bits_of_steps_on_the_cpu(dtype, options):
    cpu, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=1e-2, capturable=True, **options), dtype)
    graph = captured_step(gpu)
    for seed in (5, 6, 7):
        for optimizer in (cpu, gpu):
            set_gradients(params_of(optimizer), seed)
        cpu.step()
        graph.replay()
    assert_same(cpu, gpu)


def test_steps_and_replays_may_follow_each_other():
    cpu, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=1e-2, capturable=True))
    graph = captured_step(gpu)
    for seed, step in ((5, graph.replay), (6, gpu.step), (7, gpu.step), (8, graph.replay)):
        for optimizer in (cpu, gpu):
            set_gradients(params_of(optimizer), seed)
        cpu.step()
        step()
    assert_same(cpu, gpu)


def test_the_state_counts_the_replay_and_continues_on_the_cpu():
    cpu, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=1e-2, capturable=True, state="int8", min_quantized_size=0))
    graph = captured_step(gpu)
    for optimizer in (cpu, gpu):
        set_gradients(params_of(optimizer), 5)
    cpu.step()
    graph.replay()
    assert all(gpu.state[p]["step"].device == GPU and int(gpu.state[p]["step"]) == 2 for p in params_of(gpu))
    held = [torch.nn.Parameter(p.detach().cpu()) for p in params_of(gpu)]
    other = jitstep.AdamW(held, state="int8", min_quantized_size=0)
    other.load_state_dict(gpu.state_dict())
    for optimizer in (cpu, gpu, other):
        train(params_of(optimizer), optimizer, 2, seed=9)
    assert_same(cpu, gpu)
    assert_same(cpu, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_replay_reads_the_rate_again(dtype):
    rates = [torch.tensor(1e-2, dtype=dtype), torch.tensor(1e-2, dtype=dtype, device=GPU)]
    made = iter(rates)
    cpu, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=next(made), capturable=True))
    graph = captured_step(gpu)
    for seed, rate in ((5, 0.5), (6, 0.125)):
        for optimizer, lr in zip((cpu, gpu), rates, strict=True):
            lr.fill_(rate)
            set_gradients(params_of(optimizer), seed)
        cpu.step()
        graph.replay()
    assert_same(cpu, gpu)


def test_a_replay_with_found_inf_is_no_step():
    cpu, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=1e-2, capturable=True, fused=True))
    for optimizer, device in ((cpu, "cpu"), (gpu, GPU)):
        optimizer.grad_scale = torch.full((), 4.0, device=device)
        optimizer.found_inf = torch.zeros((), device=device)
        give_gradients(params_of(optimizer), 4)
        optimizer.step()
    graph = captured_step(gpu)
    for seed, found in ((5, 0.0), (6, 1.0), (7, 0.0)):
        for optimizer in (cpu, gpu):
            optimizer.found_inf.fill_(found)
            set_gradients(params_of(optimizer), seed)
        before = [p.detach().clone() for p in params_of(gpu)]
        cpu.step()
        graph.replay()
        unchanged = all(same_bits(p, q) for p, q in zip(params_of(gpu), before, strict=True))
        assert unchanged == bool(found)
    assert_same(cpu, gpu)


def test_an_ordinary_step_with_found_inf_is_not_counted():
    _, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=1e-2, capturable=True, fused=True))
    gpu.found_inf = torch.ones((), device=GPU)
    gpu.step()
    gpu.found_inf = torch.zeros((), device=GPU)
    gpu.step()
    assert all(int(gpu.state[p]["step"]) == 2 for p in params_of(gpu))


def refuses_capture(optimizer):
    before = [p.detach().clone() for p in params_of(optimizer)]
    with pytest.raises((RuntimeError, ValueError), match="graph"), new_graph().captured():
        optimizer.step()
    assert all(same_bits(p, q) for p, q in zip(params_of(optimizer), before, strict=True))


def test_a_capture_before_the_first_step_is_an_error_and_changes_nothing():
    params = parameters(GPU, [(333,)])
    optimizer = jitstep.AdamW(params, capturable=True)
    give_gradients(params, 2)
    refuses_capture(optimizer)
    assert not optimizer.state.get(params[0])
    train(params, optimizer, 1)
    captured_step(optimizer).replay()


@pytest.mark.parametrize(
    ("rule", "options"),
    [("AdamW", {}), ("Adafactor", {"capturable": True}), ("Prodigy", {"capturable": True})],
)
def test_a_step_that_the_host_counts_cannot_be_captured(rule, options):
    cpu, gpu = twins(lambda ps: getattr(jitstep, rule)(ps, **options))
    refuses_capture(gpu)
    for optimizer in (cpu, gpu):
        train(params_of(optimizer), optimizer, 1, seed=9)
    assert_same(cpu, gpu)
    assert all(gpu.state[p]["step"].device.type == "cpu" for p in params_of(gpu))


def test_one_group_that_is_not_capturable_keeps_the_steps_on_the_host():
    params = parameters(GPU, [(333,), (7,)])
    groups = [{"params": params[:1], "capturable": False}, {"params": params[1:]}]
    optimizer = jitstep.AdamW(groups, capturable=True)
    train(params, optimizer, 1)
    refuses_capture(optimizer)


def test_the_host_reads_a_rate_that_is_a_tensor_on_the_cpu():
    cpu, gpu = twins(lambda ps: jitstep.AdamW(ps, lr=torch.tensor(1e-2), capturable=True))
    for optimizer in (cpu, gpu):
        optimizer.param_groups[0]["lr"].fill_(0.5)
        train(params_of(optimizer), optimizer, 1, seed=9)
    assert_same(cpu, gpu)


def test_a_step_without_gradients_may_have_the_number_0_as_found_inf():
    """GradScaler gives it, for example to the discriminator of a GAN in a step of the generator."""
    params = parameters(GPU, [(300,)])
    optimizer = jitstep.AdamW(params, fused=True, capturable=True)
    train(params, optimizer, 2)
    before = params[0].detach().clone()
    params[0].grad = None
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0, device=GPU), 0
    optimizer.step()
    assert same_bits(params[0], before)
