"""A child process that runs steps of implementations."""

import json
import pathlib
import signal
import subprocess
import threading


class ImplementationError(Exception):
    """The reason why an implementation is not measured."""


class ImplementationProcess:
    """Talks to build/bench/implementation_server or library_implementations.py by lines of JSON. The first request
    starts it."""

    LIMIT = 900  # seconds until a process that does not answer is killed

    def __init__(self, command, variables, log):
        self.command, self.variables, self.log = command, variables, log
        self.child = None

    def send(self, request):
        if self.child is None or self.child.poll() is not None:
            try:
                self.child = subprocess.Popen(
                    [str(part) for part in self.command],
                    env=self.variables,
                    text=True,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self.log,
                )
            except OSError as error:
                raise ImplementationError(f"{self.command[0]} does not start: {error.strerror}") from error
        try:
            self.child.stdin.write(json.dumps(request) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # receive() reports how the process ended

    def receive(self):
        watchdog = threading.Timer(self.LIMIT, self.child.kill)
        watchdog.start()
        try:
            line = self.child.stdout.readline()
        finally:
            watchdog.cancel()  # else Python waits for it at its end
        if not line:
            raise ImplementationError(f"its process {ending(self.child.wait())}")
        answer = json.loads(line)
        if "error" in answer:
            raise ImplementationError(" ".join(answer["error"].split())[:300])
        return answer

    def ask(self, request):
        self.send(request)
        return self.receive()

    def extra_bytes(self, request):
        """How much the process's memory grows while it answers. None if Linux does not report it."""
        try:
            folder = pathlib.Path("/proc", str(self.child.pid))
            before = resident(folder, "VmRSS")
            (folder / "clear_refs").write_text("5")  # resets the peak
        except OSError:
            self.ask(request)
            return None
        self.ask(request)
        return max(0, resident(folder, "VmHWM") - before)

    def close(self):
        if self.child is not None:
            self.child.stdin.close()
            self.child.wait()
            self.child.stdout.close()
            self.child = None


def resident(folder, field):
    for line in (folder / "status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"no {field}")


def ending(code):
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
