"""The option sets and error cases that PyTorch tests its own optimizers with.

They come from torch.testing._internal.common_optimizers, which needs the package expecttest.
"""

import copy
import re

import pytest
import torch

import jitstep

common = pytest.importorskip("torch.testing._internal.common_optimizers", exc_type=ImportError)

INFOS = [info for info in common.optim_db if hasattr(jitstep, info.optim_cls.__name__)]
CASES = [
    pytest.param(info, case, id=f"{info.optim_cls.__name__}-{case.desc or number}")
    for info in INFOS
    for number, case in enumerate(info.optim_inputs_func(device="cpu", dtype=torch.float32))
]


def test_all_thirteen_classes_have_cases():
    assert len(INFOS) == 13
    assert len(CASES) > 60


def parameters(only_matrices):
    torch.manual_seed(4)
    shapes = [(5, 4), (7, 3)] if only_matrices else [(5, 4), (6,), (2, 3, 2), ()]
    return [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]


def run(cls, options, only_matrices):
    """Parameters after steps with the same gradients."""
    ps = parameters(only_matrices)
    optimizer = cls(ps, **options)
    generator = torch.Generator().manual_seed(5)
    for _ in range(5):
        for p in ps:
            p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return ps


@pytest.mark.parametrize(("info", "case"), CASES)
def test_results_of_every_option_set_follow_torch(info, case):
    options = {k: v for k, v in case.kwargs.items() if k not in ("foreach", "fused", "differentiable", "capturable")}
    only_matrices = info.optim_cls.__name__ == "Muon"
    ours = getattr(jitstep, info.optim_cls.__name__)
    theirs = run(info.optim_cls, copy.deepcopy(options), only_matrices)
    made = run(ours, copy.deepcopy(options), only_matrices)
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if only_matrices else {"rtol": 2e-5, "atol": 2e-6}
    for p, q in zip(theirs, made, strict=True):
        torch.testing.assert_close(q, p, **tolerance)


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.optim_cls.__name__)
def test_errors_are_torchs(info):
    cls = getattr(jitstep, info.optim_cls.__name__)
    checked = 0
    for case in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        given = case.optimizer_error_input
        if issubclass(case.error_type, Warning):
            with pytest.warns(case.error_type, match=case.error_regex):
                cls(given.params, **given.kwargs)
        else:
            of_step = case.error_on == common.OptimizerErrorEnum.STEP_ERROR
            optimizer = cls(given.params, **given.kwargs) if of_step else None
            with pytest.raises(case.error_type) as raised:
                optimizer.step() if of_step else cls(given.params, **given.kwargs)
            assert re.search(case.error_regex, str(raised.value)), (given.desc, case.error_regex, str(raised.value))
        checked += 1
    assert checked > 4
