"""Every scheduler of torch sets the same rates as for torch.optim."""

import pytest
import torch
from torch.optim import lr_scheduler as schedulers
from torch.optim import swa_utils
from training import saved

import jitstep

SCHEDULERS = {
    "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda step: 0.95),
    "StepLR": lambda o: schedulers.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, [2, 5], 0.3),
    "ConstantLR": lambda o: schedulers.ConstantLR(o, 0.5, 3),
    "LinearLR": lambda o: schedulers.LinearLR(o, 0.3, total_iters=4),
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 6, 2.0),
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 6),
    "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: schedulers.CyclicLR(o, 1e-4, 1e-2, step_size_up=3),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 1e-2, 20),
    "ChainedScheduler": lambda o: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(o, 0.5, 3), schedulers.ExponentialLR(o, 0.9)]
    ),
    "SequentialLR": lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.1, total_iters=2), schedulers.StepLR(o, 2)], [2]
    ),
    "ReduceLROnPlateau": lambda o: schedulers.ReduceLROnPlateau(o, patience=0, factor=0.1),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=3),
}


def test_every_scheduler_of_torch_is_tested():
    found = {
        name
        for name, value in vars(schedulers).items()
        if isinstance(value, type) and issubclass(value, schedulers.LRScheduler) and not name.startswith("_")
    }
    assert found - {"LRScheduler"} <= set(SCHEDULERS)


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_scheduler_sets_the_same_rates(name, as_tensor):
    rates = []
    for module in (torch.optim, jitstep):
        p = torch.nn.Parameter(torch.ones(3))
        lr = torch.tensor(1e-3) if as_tensor else 1e-3
        optimizer = module.AdamW([p], lr=lr)
        scheduler = SCHEDULERS[name](optimizer)
        seen = []
        for step in range(8):
            p.grad = torch.ones(3)
            optimizer.step()
            scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            seen.append((float(optimizer.param_groups[0]["lr"]), p.detach().sum().item()))
            if step == 3:
                optimizer.load_state_dict(saved(optimizer.state_dict()))
        rates.append(seen)
    torch.testing.assert_close(torch.tensor(rates[1]), torch.tensor(rates[0]), rtol=1e-5, atol=1e-7)
