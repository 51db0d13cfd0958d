"""Progress bars of tqdm, in terminals and notebooks."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def _tqdm() -> Any:
    """tqdm's bar for a notebook or a terminal. Raises ImportError without tqdm."""
    return import_module("tqdm.auto").tqdm


def _is_interactive() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    in_notebook = shell is not None and "IPKernelApp" in shell.config
    isatty = getattr(sys.stderr, "isatty", None)  # None in a process without standard error
    return in_notebook or (isatty is not None and isatty())


def bar(total: int, what: str, unit: str, show: bool | None) -> Any:
    """A bar, or None. `show`: None shows one in a terminal or notebook only."""
    if show is False or (show is None and not _is_interactive()):
        return None
    try:
        tqdm = _tqdm()
    except ImportError as error:
        if not show:
            return None
        raise ImportError("progress=True needs tqdm. Run `pip install tqdm`.") from error
    return tqdm(total=total, desc=what, unit=f" {unit}", delay=0 if show else 0.5, leave=bool(show))


@contextmanager
def polled(total: int, what: str, unit: str, count: Callable[[], int], show: bool | None) -> Iterator[None]:
    """A bar that a thread moves to count() while the block runs."""
    shown = bar(total, what, unit, show)
    if shown is None:
        yield
        return
    first, ended = count(), threading.Event()

    def move() -> None:
        shown.update(min(total, count() - first) - shown.n)

    def poll() -> None:
        while not ended.wait(0.1):
            move()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        move()
        shown.close()
