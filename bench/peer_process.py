"""A process that holds implementations and steps one of them when it is told to."""
import json
import pathlib
import signal
import subprocess
import threading


class ContenderError(Exception):
    """Why a contender is not measured."""


class PeerProcess:
    """Speaks to build/bench/implementation_server or peer_contenders.py by lines of JSON; started by its first request."""

    LIMIT = 900  # seconds until a process that does not answer is ended

    def __init__(self, command, variables, log):
        self.command, self.variables, self.log = command, variables, log
        self.child = None

    def send(self, request):
        if self.child is None or self.child.poll() is not None:
            try:
                self.child = subprocess.Popen(
                    [str(part) for part in self.command], env=self.variables, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                )
            except OSError as error:
                raise ContenderError(f"{self.command[0]} does not start: {error.strerror}") from error
        try:
            self.child.stdin.write(json.dumps(request) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # receive says how it ended

    def receive(self):
        watchdog = threading.Timer(self.LIMIT, self.child.kill)
        watchdog.start()
        line = self.child.stdout.readline()
        watchdog.cancel()
        if not line:
            raise ContenderError(f"its process {ending(self.child.wait())}")
        answer = json.loads(line)
        if "error" in answer:
            raise ContenderError(" ".join(answer["error"].split())[:300])
        return answer

    def ask(self, request):
        self.send(request)
        return self.receive()

    def extra_bytes(self, request):
        """By how much the process's memory rises above what it holds already while it answers; None where Linux cannot tell."""
        try:
            folder = pathlib.Path("/proc", str(self.child.pid))
            before = resident(folder, "VmRSS")
            (folder / "clear_refs").write_text("5")  # forgets the peak
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
