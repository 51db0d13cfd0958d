"""Keys of a program in parameter groups that have the names of jitstep's own keys in checkpoints."""

import copy

import pytest
import torch

import jitstep

KEYS = [{"mode": "eval"}, {"rule": "head"}, {"schema": "v2"}, {"schema": 7}, {"shared_state": 3}]


def stepped(module, name, **keys):
    p = torch.nn.Parameter(torch.ones(4))
    p.grad = torch.ones(4)
    optimizer = getattr(module, name)([{"params": [p], **keys}], lr=0.1)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("keys", KEYS, ids=str)
@pytest.mark.parametrize("saver", [torch.optim, jitstep])
def test_keys_of_the_program_return_from_a_checkpoint_and_mean_nothing(keys, saver):
    saved = copy.deepcopy(stepped(saver, "AdamW", **keys).state_dict())
    loaded = stepped(jitstep, "AdamW")
    loaded.load_state_dict(saved)
    loaded.step()
    assert loaded.training
    assert {name: loaded.param_groups[0][name] for name in keys} == keys
    assert "jitstep_user_keys" not in loaded.param_groups[0]


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_keys_of_the_program_stay_beside_modes_and_shared_state(keys):
    for name in ("ScheduleFreeAdamW", "Prodigy"):
        saved = copy.deepcopy(stepped(jitstep, name, **keys).state_dict())
        loaded = stepped(jitstep, name)
        loaded.load_state_dict(saved)
        assert loaded.training
        assert {key: loaded.param_groups[0][key] for key in keys} == keys


def test_an_unknown_mode_of_a_checkpoint_is_an_error_that_changes_nothing():
    optimizer = stepped(jitstep, "ScheduleFreeSGD")
    saved = copy.deepcopy(optimizer.state_dict())
    saved["param_groups"][0]["mode"] = "encode"
    with pytest.raises(ValueError, match="mode"):
        optimizer.load_state_dict(saved)
    optimizer.eval()
    optimizer.train()


def test_an_archive_of_a_checkpoint_of_torch_with_a_key_rule_is_refused(tmp_path):
    saved = stepped(torch.optim, "AdamW", rule="adamw").state_dict()
    with pytest.raises(ValueError, match="rule"):
        jitstep.write_archive(tmp_path / "archive.pt", saved)
