"""Signals that arrive while kernels compile."""

import os
import subprocess
import sys
import textwrap

# Marks its start, and compiles when the file `slow` has gone.
COMPILER = """#!/bin/sh
case "$*" in *-shared*) touch '{folder}/began'; while [ -e '{folder}/slow' ]; do sleep 0.1; done ;; esac
exec g++ "$@" -Og
"""

PROGRAM = """
    import os, pathlib, signal, sys, threading, time
    import torch, jitstep

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
    folder = pathlib.Path(sys.argv[1])
    def signal_at_compilation():
        while not (folder / "began").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    params = [torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(4, dtype=torch.float64))]
    optimizer = jitstep.AdamW(params, lr=0.5, weight_decay=0.0)
    def step():
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()
    def check_stepped():
        for p in params:
            torch.testing.assert_close(p.detach(), torch.full_like(p, 0.5))
    threading.Thread(target=signal_at_compilation, daemon=True).start()
"""


def _environment(folder):
    (folder / "slow").touch()
    compiler = folder / "compiler"
    compiler.write_text(COMPILER.format(folder=folder))
    compiler.chmod(0o755)
    return {**os.environ, "JITSTEP_CXX": str(compiler), "JITSTEP_CACHE_DIR": str(folder / "cache")}


def _check(folder, program):
    """Runs a program that gets SIGINT while its first step compiles."""
    text = textwrap.dedent(PROGRAM) + textwrap.dedent(program)
    command = [sys.executable, "-c", text, str(folder)]
    run = subprocess.run(command, env=_environment(folder), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_ctrl_c_ends_a_compilation_and_changes_nothing(tmp_path):
    _check(
        tmp_path,
        """
        try:
            step()
            sys.exit("it was not interrupted")
        except KeyboardInterrupt:
            pass
        assert all(torch.equal(p.detach(), torch.ones_like(p)) for p in params)
        assert not optimizer.state, optimizer.state
        (folder / "slow").unlink()
        step()
        check_stepped()
        """,
    )


def test_a_handler_that_raises_nothing_lets_the_compilation_continue(tmp_path):
    _check(
        tmp_path,
        """
        seen = []
        def handle(number, frame):
            seen.append(number)
            (folder / "slow").unlink()
        signal.signal(signal.SIGINT, handle)
        step()
        assert seen == [signal.SIGINT]
        check_stepped()
        """,
    )


def test_a_handler_that_calls_the_optimizer_during_a_compilation_gets_an_error(tmp_path):
    _check(
        tmp_path,
        """
        errors = []
        def handle(number, frame):
            (folder / "slow").unlink()
            added = {"params": [torch.nn.Parameter(torch.ones(3))]}
            for call in (optimizer.step, lambda: optimizer.add_param_group(added)):
                try:
                    call()
                except (ValueError, RuntimeError) as error:
                    errors.append(str(error))
        signal.signal(signal.SIGINT, handle)
        try:
            step()
        except RuntimeError as error:
            errors.append(str(error))
        assert "signal handler" in errors[0], errors
        assert all(torch.equal(p.detach(), torch.ones_like(p)) for p in params)
        optimizer.step()
        check_stepped()
        """,
    )
