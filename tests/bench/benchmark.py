"""What the tests of the benchmarks of bench/ share: a call of the script, and a folder for its results.

Each is a program with one argument, build/examples/fashion_mnist.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PROGRAM = sys.argv.pop()


class BenchmarkTest(unittest.TestCase):
    script = ""  # in bench/
    always = ()  # arguments of every call

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name, "results.jsonl")

    def call(self, *arguments):
        """What it prints."""
        command = [sys.executable, ROOT / "bench" / self.script, "--program", PROGRAM,
                   "--results", self.results, *self.always, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    if not DATA.exists():
        print(f"{DATA} is not there; tools/setup.sh installs it")
        sys.exit(77)
    unittest.main()
