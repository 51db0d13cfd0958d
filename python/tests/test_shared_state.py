"""Checkpoints of numbers that a rule stores once for all parameters."""

import copy
import math

import pytest
from training import make, same, train

import jitstep


def shared_state(optimizer):
    return optimizer.state_dict()["param_groups"][0]["shared_state"]


def test_shared_state_is_complete_before_the_first_step():
    optimizer = jitstep.Prodigy(make().parameters(), d0=0.125)
    assert shared_state(optimizer)["d"] == 0.125
    optimizer.init_state()
    assert shared_state(optimizer)["d"] == 0.125
    assert jitstep.Adam(make().parameters()).state_dict()["param_groups"][0]["shared_state"] == {}


def test_a_checkpoint_of_the_start_changes_nothing():
    a, b = make(), make()
    first, second = (jitstep.Prodigy(net.parameters(), d0=1e-3) for net in (a, b))
    second.load_state_dict(copy.deepcopy(second.state_dict()))
    train(a, first, 3)
    train(b, second, 3)
    assert same(a, b)


@pytest.mark.parametrize("name", ["Prodigy", "DAdaptAdam", "ScheduleFreeAdamW"])
def test_distributed_checkpoints_have_shared_state(name, tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    a, b = make(), make()
    first, second = (getattr(jitstep, name)(net.parameters()) for net in (a, b))
    train(a, first, 4)
    dcp.save({"o": get_optimizer_state_dict(a, first)}, checkpoint_id=str(tmp_path))
    b.load_state_dict(a.state_dict())
    second.init_state()
    into = {"o": get_optimizer_state_dict(b, second)}
    dcp.load(into, checkpoint_id=str(tmp_path))
    set_optimizer_state_dict(b, second, into["o"])
    assert shared_state(first) == shared_state(second)
    assert all(math.isfinite(value) for value in shared_state(second).values())
    train(a, first, 3, seed=5)
    train(b, second, 3, seed=5)
    assert same(a, b)


@pytest.mark.parametrize("lost", [("d",), ("d", "d_max", "d_numerator", "k")])
def test_incomplete_shared_state_is_refused(lost):
    net, other_net = make(), make()
    optimizer, other = jitstep.Prodigy(net.parameters()), jitstep.Prodigy(other_net.parameters())
    train(net, optimizer, 2)
    before = shared_state(optimizer)
    damaged = copy.deepcopy(optimizer.state_dict())
    for key in lost:
        del damaged["param_groups"][0]["shared_state"][key]
    with pytest.raises(ValueError, match="shared state"):
        optimizer.load_state_dict(damaged)
    assert shared_state(optimizer) == before
    train(net, optimizer, 2, seed=3)
    train(other_net, other, 2, seed=2)
    train(other_net, other, 2, seed=3)
    assert same(net, other_net)
