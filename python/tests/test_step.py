"""Steps follow torch.optim, for any options, groups and dtypes."""

import copy
import gc
import os
import pickle
import time
import weakref

import pytest
import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR, ReduceLROnPlateau, StepLR
from training import assert_close, make, same, train

import jitstep
from jitstep import _core

TORCH_CLASSES = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
]  # fmt: skip


def both(name="AdamW", groups=lambda net: net.parameters(), steps=10, **options):
    """Networks after steps of torch's and of jitstep's optimizer."""
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = getattr(module, name)(groups(net), **options)
        train(net, optimizer, steps)
        nets.append(net)
    return nets


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_a_class_follows_torchs_class_of_the_same_name(name):
    assert_close(*both(name))


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"])
def test_infinite_parameters_stay_infinite_as_in_torch(name):
    made = []
    for optim in (torch.optim, jitstep):
        p = torch.nn.Parameter(torch.tensor([1.0, -torch.inf, 2.0, torch.inf]))
        optimizer = getattr(optim, name)([p], lr=0.01)
        for _ in range(3):
            p.grad = torch.tensor([0.1, 0.0, 0.2, 0.1])
            optimizer.step()
        made.append(p.detach())
    torch.testing.assert_close(*made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_adafactors_default_floor_is_the_epsilon_of_the_parameters_dtype(dtype):
    made = []
    for optim in (torch.optim, jitstep):
        p = torch.nn.Parameter(torch.ones(4, 8, dtype=dtype))
        optimizer = optim.Adafactor([p], lr=0.5)
        p.grad = torch.full_like(p, 1e-3 if dtype == torch.bfloat16 else 2e-4)
        optimizer.step()
        made.append(p.detach())
    torch.testing.assert_close(*made)
    assert made[0].min() > 0.6  # a smaller floor permits a step of 0.5


@pytest.mark.parametrize("lr", [float("inf"), float("nan")])
def test_adafactor_with_a_rate_that_is_not_finite_steps_as_in_torch(lr):
    stepped = []
    for module in (torch.optim, jitstep):
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(6, 5))
        optimizer = module.Adafactor([p])
        optimizer.param_groups[0]["lr"] = lr
        for _ in range(3):
            p.grad = torch.randn(6, 5)
            optimizer.step()
        stepped.append(p.detach())
    torch.testing.assert_close(stepped[1], stepped[0], equal_nan=True)


def test_an_infinite_average_of_centered_rmsprop_stops_its_element():
    made = []
    for optim in (torch.optim, jitstep):
        p = torch.nn.Parameter(torch.ones(3))
        optimizer = optim.RMSprop([p], centered=True)
        for gradient in (-1e25, 1.0, 1.0):
            p.grad = torch.tensor([gradient, 1.0, 2.0])
            optimizer.step()
        made.append(p.detach())
    torch.testing.assert_close(*made)


@pytest.mark.parametrize("name", ["SGD", "SGDW"])
def test_momentum_that_is_set_later_begins_with_the_gradient(name):
    made = []
    for module in ((torch.optim if name == "SGD" else jitstep), jitstep):
        p = torch.nn.Parameter(torch.ones(3))
        late = module is torch.optim or made
        optimizer = getattr(module, name)([p], lr=0.1, dampening=0.5, momentum=0.0 if late else 0.9)
        for step in range(5):
            if step == 3:
                optimizer.param_groups[0]["momentum"] = 0.9
            p.grad = torch.full((3,), float(step >= 3))  # no change before momentum is on
            if late or step >= 3:
                optimizer.step()
        made.append(p.detach())
    torch.testing.assert_close(*made)


def test_momentum_that_is_set_later_keeps_the_extra_bits_of_the_weights():
    """They are 1 + 2^-9, of which bfloat16 has no bit."""
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = jitstep.SGD([p], lr=2.0**-9, dampening=0.5, weights="split16")
    for gradient in (-1.0, 0.0):
        p.grad = torch.full_like(p, gradient)
        optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.5
    for _ in range(2):
        p.grad = torch.ones_like(p)
        optimizer.step()
    wanted = 1 + 2.0**-9 * (1 - 1 - (0.5 + 0.5))
    assert optimizer.fp32_weights()[0].tolist() == 3 * [wanted]


def test_muon_follows_torch():
    assert_close(*both("Muon", lambda net: [p for p in net.parameters() if p.dim() == 2]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{"maximize": True}, {"weight_decay": 0.1, "amsgrad": True}, {"lr": torch.tensor(3e-3)}]
)
def test_options_follow_torch(options):
    assert_close(*both(**options))


def test_clipping_equals_clip_grad_norm():
    nets = [make(), make()]
    theirs = torch.optim.SGD(nets[0].parameters(), 0.1)
    ours = jitstep.SGD(nets[1].parameters(), 0.1, max_grad_norm=0.01)
    for net, optimizer in zip(nets, (theirs, ours), strict=True):
        x = torch.ones(8, 64)
        net(x).pow(2).mean().backward()
        if optimizer is theirs:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        optimizer.step()
    assert_close(*nets)


def test_groups_have_their_own_options():
    def groups(net):
        return [
            {"params": [net[0].weight], "lr": 3e-3},
            {"params": [net[0].bias], "weight_decay": 0.0},
            {"params": net[2].parameters(), "betas": (0.8, 0.99)},
        ]

    assert_close(*both(groups=groups))


def test_a_group_can_be_added_between_steps():
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net[0].parameters())
        train(net, optimizer, 2)
        optimizer.add_param_group({"params": net[2].parameters(), "lr": 1e-2})
        train(net, optimizer, 3, seed=3)
        nets.append(net)
    assert_close(*nets)


def test_a_closure_computes_the_loss_with_gradients():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(4, 64)).pow(2).mean()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert optimizer.step(closure) < first


def test_hooks_of_steps_are_called():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    train(net, optimizer, 2)
    assert calls == ["before", "after"] * 2


@pytest.mark.parametrize(
    "schedule",
    [lambda o: StepLR(o, 2, 0.5), lambda o: OneCycleLR(o, 1e-2, 20), lambda o: CyclicLR(o, 1e-4, 1e-2, step_size_up=3)],
)
def test_schedulers_set_options(schedule):
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net.parameters())
        train(net, optimizer, 12, scheduler=schedule(optimizer))
        nets.append(net)
    assert_close(*nets)


def test_a_plateau_scheduler_reduces_the_rate():
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net.parameters(), lr=1e-3)
        scheduler = ReduceLROnPlateau(optimizer, patience=0, factor=0.1)
        for _ in range(3):
            train(net, optimizer, 1)
            scheduler.step(1.0)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-5)
        nets.append(net)
    assert_close(*nets)


def test_a_step_without_any_gradient_does_nothing():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    optimizer.step()
    assert not optimizer.state
    schedule_free = jitstep.ScheduleFreeAdamW(net.parameters())
    schedule_free.eval()
    schedule_free.train()
    schedule_free.step()
    assert not schedule_free.state
    assert same(net, make())


def test_float64_parameters_follow_torch_in_float64():
    nets = []
    for module in (torch.optim, jitstep):
        net = make(torch.float64)
        losses = train(net, module.AdamW(net.parameters(), lr=1e-2), 20)
        assert losses[-1] < losses[0]
        nets.append(net)
    assert_close(*nets, rtol=1e-12, atol=1e-12)


def test_a_step_of_bfloat16_parameters_is_a_float32_step_that_is_rounded():
    net, wide = make(torch.bfloat16), make()
    ours, theirs = jitstep.AdamW(net.parameters(), lr=1e-2), torch.optim.AdamW(wide.parameters(), lr=1e-2)
    for step in range(20):
        wide.load_state_dict(net.state_dict())
        train(net, ours, 1, seed=step)
        for p, q in zip(net.parameters(), wide.parameters(), strict=True):
            q.grad = p.grad.float()
        theirs.step()
        for p, q in zip(net.parameters(), wide.parameters(), strict=True):
            torch.testing.assert_close(p.float(), q, rtol=2**-8, atol=1e-6)


def test_the_result_does_not_depend_on_the_number_of_threads():
    results, before = [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(300_000))
        optimizer = jitstep.LAMB([p], state="int8")
        for _ in range(3):
            p.grad = torch.randn(300_000)
            optimizer.step()
        results.append(p.detach())
    torch.set_num_threads(before)
    assert torch.equal(*results)


def seconds_by_thread():
    """The CPU time of each thread of this process."""
    # The clock of a thread with this id, as pthread_getcpuclockid() computes it.
    return {int(one): time.clock_gettime((~int(one) << 3) | 6) for one in os.listdir("/proc/self/task")}


def threads_that_work(work):
    """How many threads ran for at least a tenth of the time of the busiest one."""
    time.sleep(0.2)  # until threads that wait in a busy loop fall asleep
    before = seconds_by_thread()
    work()
    ran = [seconds - before.get(thread, 0) for thread, seconds in seconds_by_thread().items()]
    return sum(one > max(ran) / 10 for one in ran)


def test_the_threads_are_those_of_torch():
    assert _core.has_openmp()
    p = torch.nn.Parameter(torch.zeros(4_000_000))
    p.grad = torch.ones_like(p)
    optimizer = jitstep.AdamW([p])
    optimizer.step()
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        optimizer.step()
        assert threads_that_work(lambda: [optimizer.step() for _ in range(5)]) == threads
    torch.set_num_threads(before)


def test_autograd_notices_the_change():
    p = torch.nn.Parameter(torch.ones(3))
    loss = (p * p).sum()
    p.grad = torch.ones(3)
    jitstep.SGD([p], lr=1.0).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_copies_and_pickles_continue_alike():
    net = make()
    optimizer = jitstep.NAdam(net.parameters(), state="int8", min_quantized_size=512)
    train(net, optimizer, 3)
    pairs = [(net, optimizer), copy.deepcopy((net, optimizer)), pickle.loads(pickle.dumps((net, optimizer)))]
    for model, one in pairs:
        assert one.param_groups[0]["params"][0] is model[0].weight
        train(model, one, 3, seed=4)
    assert same(pairs[0][0], pairs[1][0])
    assert same(pairs[0][0], pairs[2][0])
    assert type(pairs[2][1]) is jitstep.NAdam


def test_copies_of_shared_state_continue_alike():
    net = make()
    optimizer = jitstep.Prodigy(net.parameters())
    train(net, optimizer, 3)
    model, one = copy.deepcopy((net, optimizer))
    train(net, optimizer, 3, seed=4)
    train(model, one, 3, seed=4)
    assert same(net, model)


def test_zero_grad_drops_or_clears_gradients():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    train(net, optimizer, 1)
    optimizer.zero_grad(set_to_none=False)
    assert not net[0].weight.grad.any()
    optimizer.zero_grad()
    assert net[0].weight.grad is None


def test_an_optimizer_in_a_cycle_is_collected():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = jitstep.SGD([p], lr=0.1)
    p.register_hook(lambda grad, kept=optimizer: None)
    p.grad = torch.ones(3)
    optimizer.step()
    found = weakref.ref(optimizer)
    del optimizer, p
    gc.collect()
    assert found() is None


def test_a_compiled_training_step_breaks_the_graph_and_steps():
    nets = []
    for compiled in (torch.compile(backend="eager"), lambda function: function):
        net = make()
        optimizer = jitstep.AdamW(net.parameters())

        @compiled
        def one(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()

        for _ in range(3):
            one(torch.ones(4, 64))
        assert optimizer.state[net[0].weight]["step"] == 3
        nets.append(net)
    assert same(*nets)
    assert not same(net, make())
