"""Helpers for the tests of the scripts in bench/: a call of the script, and a folder for its results.

Each test is a program with one argument: build/examples/fashion_mnist, or the folder of the training programs.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
TEXT = pathlib.Path("/usr/share/games/fortunes")
PROGRAM = sys.argv.pop()


class BenchmarkTest(unittest.TestCase):
    script = ""  # file name in bench/
    program_flag = "--program"
    always = ()  # arguments of every call

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name, "results.jsonl")

    def call(self, *arguments):
        """Runs the script and returns its standard output."""
        command = [
            sys.executable,
            ROOT / "bench" / self.script,
            self.program_flag,
            PROGRAM,
            "--results",
            self.results,
            *self.always,
            *arguments,
        ]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(*data):
    for folder in data or [FASHION_MNIST]:
        if not folder.exists():
            print(f"{folder} is not there; tools/setup.sh installs it")
            sys.exit(77)
    unittest.main()
