"""Steps follow torch.optim, for any gradients, groups and layouts."""

import copy
import gc
import pickle
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


def test_hooks_of_steps_and_groups_are_called():
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


def test_a_tensor_rate_may_change_in_place():
    net, rate = make(), torch.tensor(1e-3)
    optimizer = jitstep.AdamW(net.parameters(), lr=rate, weight_decay=0)
    train(net, optimizer, 1)
    before = copy.deepcopy(net)
    rate.zero_()
    train(net, optimizer, 1)
    assert same(net, before)


def test_a_parameter_without_gradient_is_skipped_and_needs_no_new_tables():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    train(net, optimizer, 2)
    before = net[0].weight.detach().clone()
    prepared = []
    optimizer._prepare = lambda scaled: prepared.append(scaled)
    for _ in range(3):
        net[0].weight.grad = None
        optimizer.step()
    assert torch.equal(net[0].weight, before)
    assert optimizer.state[net[0].weight]["step"] == 2
    assert optimizer.state[net[0].bias]["step"] == 5
    assert prepared == []


def test_parameters_that_get_gradients_later_join():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    net[2].weight.grad = torch.ones_like(net[2].weight)
    optimizer.step()
    train(net, optimizer, 1)
    assert optimizer.state[net[2].weight]["step"] == 2
    assert optimizer.state[net[0].weight]["step"] == 1


def test_the_parameters_of_a_group_may_become_a_tuple():
    nets = []
    for module in (torch.optim, jitstep):
        nets.append(make())
        optimizer = module.AdamW(nets[-1].parameters())
        train(nets[-1], optimizer, 2)
        optimizer.param_groups[0]["params"] = tuple(optimizer.param_groups[0]["params"])
        train(nets[-1], optimizer, 2)
    assert_close(*nets)


@pytest.mark.parametrize("more", [1, 2, 3])
@pytest.mark.parametrize("in_place", [True, False])
def test_step_numbers_may_be_set_from_outside(more, in_place):
    nets = []
    for module in (torch.optim, jitstep):
        nets.append(make())
        optimizer = module.Adafactor(nets[-1].parameters())
        train(nets[-1], optimizer, 2)
        for held in optimizer.state.values():
            if in_place:
                held["step"] += more
            else:
                held["step"] = held["step"] + more
        train(nets[-1], optimizer, 3)
        assert all(held["step"] == 5 + more for held in optimizer.state.values())
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


# A float32 cannot count further, in torch neither. The bias corrections are 1 before, too.
def test_auxiliary_state_changes_after_2_to_24_steps():
    nets = []
    for taken in (2**24 - 100, 2**24):
        nets.append(make())
        optimizer = jitstep.AdamW(nets[-1].parameters(), lr=0.1, betas=(0.9, 0.9), state="factored")
        train(nets[-1], optimizer, 1)
        for held in optimizer.state.values():
            held["step"].fill_(taken)
        train(nets[-1], optimizer, 4)
    assert same(*nets)


def test_state_may_be_set_from_outside():
    nets = []
    for module in (torch.optim, jitstep):
        net = make()
        optimizer = module.AdamW(net.parameters())
        train(net, optimizer, 2)
        held = optimizer.state[net[0].weight]
        held["exp_avg"] = torch.zeros_like(held["exp_avg"])
        held["exp_avg_sq"].data = held["exp_avg_sq"].data.clone()
        train(net, optimizer, 2, seed=3)
        net[0].weight.data = net[0].weight.data.clone()
        train(net, optimizer, 2, seed=4)
        nets.append(net)
    assert_close(*nets)


def test_a_parameter_may_get_the_old_memory_of_one_without_gradient():
    parameters = [torch.nn.Parameter(torch.ones(64)) for _ in range(2)]
    optimizer = jitstep.SGD(parameters, lr=1.0)
    for p in parameters:
        p.grad = torch.ones(64)
    optimizer.step()
    old = parameters[0].data
    parameters[0].data = parameters[0].data.clone()
    parameters[1].data = old
    parameters[0].grad = None
    optimizer.step()
    assert torch.equal(parameters[0], torch.zeros(64))
    assert torch.equal(parameters[1], torch.full((64,), -1.0))


@pytest.mark.parametrize("exchanged", [True, False])
def test_state_in_other_memory_is_read_by_the_next_step(exchanged):
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    _core.use_exchange(capsule if exchanged else None)
    try:
        parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(40)]
        optimizer = jitstep.SGD(parameters, lr=1.0, momentum=1.0)
        for p in parameters:
            p.grad = torch.ones(3)
        optimizer.step()
        held = optimizer.state[parameters[30]]["momentum_buffer"]
        before = held.detach()
        held.data = torch.full((3,), 10.0)
        optimizer.step()
    finally:
        _core.use_exchange(capsule)
    assert torch.equal(before, torch.ones(3))
    assert torch.equal(held, torch.full((3,), 11.0))
    assert [p[0].item() for p in parameters] == [-3.0] * 30 + [-12.0] + [-3.0] * 9


def test_a_parameter_without_a_gradient_stays_after_a_switch_of_modes():
    p, q = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = jitstep.ScheduleFreeSGD([p, q], lr=0.5)
    p.grad = q.grad = torch.ones(3)
    optimizer.step()
    optimizer.eval()
    optimizer.train()
    before, q.grad = q.detach().clone(), None
    optimizer.step()
    assert torch.equal(q, before)
    assert [int(optimizer.state[one]["step"]) for one in (p, q)] == [2, 1]


def test_erased_state_starts_again():
    net = make()
    optimizer = jitstep.AdamW(net.parameters())
    train(net, optimizer, 2)
    optimizer.state.pop(net[0].weight)
    train(net, optimizer, 1)
    assert optimizer.state[net[0].weight]["step"] == 1


@pytest.mark.parametrize("form", ["transposed", "gaps", "scalar", "empty", "channels_last"])
def test_any_layout_follows_torch(form):
    def parameter():
        torch.manual_seed(3)
        base = torch.randn(16, 8, 3, 3)
        made = {
            "transposed": base.reshape(128, 9).t(),
            "gaps": base.reshape(128, 9)[:, ::2],
            "scalar": base[0, 0, 0, 0],
            "empty": base[:0],
            "channels_last": base.contiguous(memory_format=torch.channels_last),
        }[form]
        return torch.nn.Parameter(made.detach())

    results = []
    for module in (torch.optim, jitstep):
        p = parameter()
        optimizer = module.AdamW([p])
        for step in range(3):
            p.grad = torch.full_like(p, step - 0.5)
            optimizer.step()
        results.append(p.detach())
        assert optimizer.state[p]["exp_avg"].shape == p.shape
    torch.testing.assert_close(*results)


def test_gradients_may_have_other_strides_than_the_parameter():
    p = torch.nn.Parameter(torch.zeros(4, 6))
    q = torch.nn.Parameter(torch.zeros(4, 6))
    grad = torch.arange(24.0).reshape(6, 4).t()
    for module, one in ((torch.optim, p), (jitstep, q)):
        one.grad = grad
        module.SGD([one], lr=0.1).step()
    assert torch.equal(p, q)


def test_complex_parameters_follow_torch():
    results = []
    for module in (torch.optim, jitstep):
        torch.manual_seed(1)
        p = torch.nn.Parameter(torch.randn(20, 3, dtype=torch.complex64))
        optimizer = module.AdamW([p])
        for _ in range(3):
            p.grad = torch.randn(20, 3, dtype=torch.complex64)
            optimizer.step()
        results.append(p.detach())
    torch.testing.assert_close(*results)


def test_lazy_conjugates_and_negatives_are_applied_in_every_step():
    p = torch.nn.Parameter(torch.zeros(4, dtype=torch.complex64))
    q = torch.nn.Parameter(torch.zeros(4))
    optimizer = jitstep.SGD([p, q], lr=1.0)
    values = torch.full((4,), 1 + 2j, dtype=torch.complex64)
    for step in range(1, 4):
        p.grad = values.conj() if step > 1 else values.conj().resolve_conj()
        q.grad = values.conj().imag if step > 1 else torch.full((4,), -2.0)
        optimizer.step()
        assert torch.equal(p.detach(), -step * values.conj())
        assert torch.equal(q.detach(), torch.full((4,), 2.0 * step))


@pytest.mark.parametrize("shape", [(1,), (4,)])
def test_a_negative_with_the_form_of_the_last_gradient_is_applied(shape):
    p = torch.nn.Parameter(torch.zeros(shape))
    optimizer = jitstep.SGD([p], lr=1.0)
    values = torch.full(shape, 1 + 2j, dtype=torch.complex64)
    for step in range(1, 4):
        p.grad = values.conj().imag if step > 1 else values.imag
        optimizer.step()
    assert torch.equal(p.detach(), torch.full(shape, 2.0))


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


def test_sparse_gradients_of_sgd_follow_torch():
    tables = []
    for module in (torch.optim, jitstep):
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 4, sparse=True)
        optimizer = module.SGD(table.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([1, 3, 3])).pow(2).sum().backward()
            optimizer.step()
            assert table.weight.grad.is_sparse
        tables.append(table)
    assert_close(*tables)


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


def test_the_threads_are_those_of_torch():
    assert _core.has_openmp()


def test_tensors_are_read_without_the_exchange_api_too():
    nets = []
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    for used in (capsule, None):
        _core.use_exchange(used)
        try:
            net = make()
            train(net, jitstep.AdamW(net.parameters(), state="int8", min_quantized_size=512), 3)
            complex_p = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
            complex_p.grad = torch.ones_like(complex_p)
            jitstep.SGD([complex_p], lr=0.5).step()
            assert torch.equal(complex_p.detach(), torch.full_like(complex_p, 0.5).detach())
        finally:
            _core.use_exchange(capsule)
        nets.append(net)
    assert same(*nets)


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


# ---- inputs in addition to the gradient


def adahessian(p):
    """A step of lr in the direction of g / (|h| + eps)."""
    p.grad = torch.ones_like(p)
    return jitstep.AdaHessian([p], lr=1.0, betas=(0.0, 0.0), eps=0.5)


def test_an_input_is_read_once_by_the_next_step_with_a_gradient():
    p = torch.nn.Parameter(torch.zeros(5, 3, dtype=torch.float64).t())
    optimizer = adahessian(p)
    h = torch.rand(3, 5) + 1
    p.grad = None
    optimizer.set_input(p, "hessian", h)
    optimizer.step()
    p.grad = torch.ones_like(p)
    optimizer.step()
    expected = -1 / (h.double() + 0.5)
    torch.testing.assert_close(p.detach(), expected)
    optimizer.step()  # the second moment keeps its value
    torch.testing.assert_close(p.detach(), 2 * expected)
    optimizer.set_input(p, "hessian", torch.full_like(h, 9.5))
    optimizer.step()
    torch.testing.assert_close(p.detach(), 2 * expected - 0.1)


def test_an_input_can_be_taken_back_and_works_in_backward():
    p = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer = adahessian(p)
    optimizer.set_input(p, "hessian", torch.ones(4))
    optimizer.set_input(p, "hessian", None)
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.full((4,), -2.0, dtype=torch.float64))
    p.grad = None
    optimizer.step_in_backward()
    for _ in range(2):
        optimizer.set_input(p, "hessian", torch.full((4,), 1.5))
        p.sum().backward()
    torch.testing.assert_close(p.detach(), torch.full((4,), -3.0, dtype=torch.float64))


def test_an_input_must_fit():
    p, other = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(4))
    optimizer = adahessian(p)
    for parameter, name, value, named in (
        (other, "hessian", p, "not a parameter of this optimizer"),
        (p, "hessians", p, "no input 'hessians'"),
        (p, "hessian", torch.ones(5), r"'hessian'.* \[5\].* \[4\]"),
    ):
        with pytest.raises(ValueError, match=named):
            optimizer.set_input(parameter, name, value)
    with pytest.raises(ValueError, match="adamw has no input"):
        jitstep.AdamW([p]).set_input(p, "hessian", p)
