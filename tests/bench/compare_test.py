#!/usr/bin/env python3
"""Tests of bench/compare.py: a run of a few small steps, a resumed run, the figures, and packages that pip rejects.

compare_test.py SERVER PYTHON    SERVER is build/bench/implementation_server. PYTHON has torch. Nothing is installed.
"""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import compare_report
import library_environment
from compare import WORKLOADS
from comparison_cases import CASES, FUSED, LOOP, TARGETS
from implementation_process import ImplementationError, ImplementationProcess

PYTHON = sys.argv.pop()
SERVER = sys.argv.pop()
ONLY_TORCH = {"cpp", "torch"}  # their implementations need no package except torch
# The Python front end is missing in a build with sanitizers.
REASONS = "is not installed|requires a CUDA device|No module named 'jitstep'$"
# Replaces pip: logs its arguments, and fails for the packages `absent` and `remote`.
PIP = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
case "$*" in *absent*) echo "ERROR: No matching distribution found for absent" >&2; echo "that is all" >&2; exit 1 ;;
*remote*) echo "  fatal: unable to access it" >&2; echo "error: subprocess-exited-with-error" >&2; exit 1 ;; esac
"""


def count(shape):
    product = 1
    for size in shape:
        product *= size
    return product


class QuickRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = pathlib.Path(folder.name, "result.json")
        cls.page = pathlib.Path(folder.name, "page.md")
        cls.call()
        cls.result = json.loads(cls.out.read_text())

    @classmethod
    def call(cls, *arguments, status=0):
        command = [sys.executable, ROOT / "bench/compare.py", "--quick", "--server", SERVER, "--python", PYTHON]
        command += ["--threads", "1", "--out", cls.out, "--page", cls.page, "--log", cls.out.with_suffix(".log")]
        done = subprocess.run(command + list(arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == status, done.stderr + cls.out.with_suffix(".log").read_text()
        return done.stderr

    def test_every_implementation_is_measured_in_every_round_or_listed_with_the_reason(self):
        self.assertEqual([case["case"] for case in self.result["cases"]], list(CASES))
        for case in self.result["cases"]:
            self.assertEqual((case["tensors"], case["elements"]), (3, 9096))
            wanted = CASES[case["case"]]["rows"]
            self.assertEqual([row["name"] for row in case["rows"]], [row["name"] for row in wanted])
            for row, asked in zip(case["rows"], wanted):
                if asked["process"] not in ONLY_TORCH and "reason" in row:
                    self.assertRegex(row["reason"], REASONS)
                    continue
                self.assertNotIn("reason", row)
                self.assertEqual((len(row["seconds"]), len(row["cpu_seconds"])), (3, 3))
                self.assertGreater(min(row["seconds"]), 0)

    def test_state_has_the_bytes_of_its_format(self):
        rows = {row["name"]: row for case in self.result["cases"] for row in case["rows"]}
        bytes_of = {name: row["state_bytes"] / 9096 for name, row in rows.items() if "reason" not in row}
        self.assertEqual(bytes_of["bandwidth baseline, 28 bytes"], 8)
        self.assertEqual(bytes_of["bandwidth baseline, 18 bytes"], 6)
        self.assertAlmostEqual(bytes_of["torch foreach"], 8, delta=0.01)
        self.assertEqual(bytes_of["jitstep AdamW bf16"], 4)
        self.assertEqual(bytes_of["jitstep AdamW, stochastic rounding"], 4)

    def test_the_page_has_a_table_for_each_case_and_a_plot(self):
        text = self.page.read_text()
        for case in CASES:
            self.assertIn(f"### {case}\n", text)
        self.assertIn("| bandwidth baseline, 28 bytes | ", text)
        self.assertRegex(text, "Packages: .*torch ")
        self.assertRegex(text, r"jitstep LAMB takes \d+\.\d\d times as long as jitstep AdamW\.")
        self.assertIn("<svg", self.page.with_suffix(".svg").read_text())

    def test_a_stopped_run_continues_with_the_missing_cases(self):
        first = self.result["cases"][0]
        self.out.write_text(json.dumps(self.result | {"cases": self.result["cases"][:-1]}))
        printed = self.call()
        again = json.loads(self.out.read_text())
        self.assertEqual([case["case"] for case in again["cases"]], list(CASES))
        self.assertEqual(again["cases"][0], first)
        self.assertEqual(len(printed.splitlines()), 1, printed)

    def test_a_file_does_not_mix_settings(self):
        before = self.out.read_text()
        self.assertIn("measured with other settings", self.call("--seconds", "9", status=1))
        self.assertEqual(self.out.read_text(), before)


class Processes(unittest.TestCase):
    def process(self, *command):
        process = ImplementationProcess(command, dict(os.environ), subprocess.DEVNULL)
        self.addCleanup(process.close)
        return process

    def test_both_sides_give_the_same_parameters_and_reject_unknown_kinds(self):
        for dtype in ("float32", "bfloat16"):
            sums = []
            for command in ([SERVER], [PYTHON, ROOT / "bench/library_implementations.py"]):
                process = self.process(*command)
                answer = process.ask({"do": "load", "shapes": [[40], [3, 7]], "dtype": dtype, "threads": 1})
                self.assertEqual(answer["threads"], 1)
                sums.append(answer["sum"])
                with self.assertRaisesRegex(ImplementationError, "no such kind"):
                    process.ask({"do": "make", "implementation": {"kind": "no such kind"}})
            self.assertAlmostEqual(*sums, delta=1e-9)

    def test_a_process_that_ends_or_does_not_start_gives_a_reason(self):
        with self.assertRaisesRegex(ImplementationError, "ended with status 3"):
            self.process("sh", "-c", "read line; exit 3").ask({})
        with self.assertRaisesRegex(ImplementationError, "was ended by SIGSEGV"):
            self.process("sh", "-c", "read line; kill -SEGV $$").ask({})
        with self.assertRaisesRegex(ImplementationError, "does not start"):
            self.process("/no/such/program").ask({})


class Figures(unittest.TestCase):
    def row(self, name, seconds, **more):
        return {
            "name": name,
            "bound": "bandwidth baseline, 28 bytes",
            "seconds": seconds,
            "cpu_seconds": [2 * s for s in seconds],
            "state_bytes": 8000,
            "extra_bytes": 500,
        } | more

    def setUp(self):
        self.rows = [
            self.row("bandwidth baseline, 28 bytes", [1.0, 1.0, 3.0, 100.0]),
            self.row(LOOP, [8.0, 8.0, 24.0, 100.0]),
            {"name": FUSED, "bound": "bandwidth baseline, 28 bytes", "reason": "it does not run"},
            self.row("slow", [2.0, 4.0, 4.0], extra_bytes=None),
        ]

    def test_ratios_are_medians_over_common_rounds(self):
        of = compare_report.figures(self.rows[3], self.rows, 1000)
        self.assertEqual(of["parameters_per_second"], 250)
        self.assertEqual(of["of_bound"], 0.5)
        self.assertEqual(of["to_loop"], 4)
        self.assertIsNone(of["to_fused"])
        self.assertEqual((of["state"], of["extra"], of["cores"]), (8, None, 2))

    def test_a_line_of_the_table_has_figures_or_the_reason(self):
        loop = compare_report.line(self.rows[1], self.rows, 64000000)
        self.assertEqual(loop, f"| {LOOP} | 4.0 | 12% | 1.00 |  | 0.00 | 0.0 | 2.0 |")
        self.assertIn("| not measured: it does not run |", compare_report.line(self.rows[2], self.rows, 1000))

    def test_a_pair_is_compared_by_its_ratio(self):
        rows = [self.row("jitstep AdamW", [1.0, 2.0, 2.0]), self.row("jitstep LAMB", [3.0, 3.0, 3.0])]
        self.assertEqual(
            list(compare_report.pairs({"case": "LAMB", "rows": rows})),
            ["jitstep LAMB takes 1.50 times as long as jitstep AdamW."],
        )

    def test_a_target_is_reached_or_missed_or_not_measured(self):
        def table(*rows):
            case = {"workload": "one_tensor", "case": "float32 state", "rows": list(rows)}
            return "\n".join(compare_report.targets([case]))

        baseline, ours = self.row("bandwidth baseline, 28 bytes", [1.0, 1.0]), self.row("jitstep AdamW", [1.0, 1.0])
        slower = self.row("jitstep AdamW", [2.0, 2.0])
        self.assertIn(
            "| one tensor | jitstep AdamW | bandwidth baseline, 28 bytes | 0.95 | 1.00 | reached |",
            table(baseline, ours),
        )
        self.assertIn(
            "| one tensor | jitstep AdamW | bandwidth baseline, 28 bytes | 0.95 | 0.50 | 53% of it",
            table(baseline, slower),
        )
        self.assertIn(
            "| one tensor | jitstep AdamW | bandwidth baseline, 28 bytes | 0.95 |  | not measured |", table(ours)
        )

    def test_every_target_refers_to_existing_rows(self):
        for workload, case, row, reference, target, _ in TARGETS:
            names = [one["name"] for one in CASES[case]["rows"]]
            self.assertIn(row, names)
            self.assertIn(reference, names)
            self.assertIn(workload, WORKLOADS)
            self.assertGreater(target, 0)


class Environment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        python = library_environment.python_of(self.folder)
        python.parent.mkdir()
        python.write_text(PIP)
        python.chmod(python.stat().st_mode | stat.S_IXUSR)

    def asked(self):
        log = self.folder / "bin/asked"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.split()[-1] for line in lines if not line.endswith("--version")]

    def test_a_failed_installation_has_pips_reason_and_is_tried_again(self):
        packages = {"there": ["there==1"], "absent": ["absent==1"]}
        reason = {"absent": "pip cannot install it: ERROR: No matching distribution found for absent"}
        self.assertEqual(library_environment.install(self.folder, packages), reason)
        self.assertEqual(self.asked(), ["there==1", "absent==1"])
        self.assertEqual(library_environment.install(self.folder, packages), reason)
        self.assertEqual(self.asked(), ["absent==1"])
        self.assertEqual(library_environment.install(self.folder, {"there": ["there==2"]}), {})
        self.assertEqual(self.asked(), ["there==2"])
        self.assertEqual(
            library_environment.install(self.folder, {"far": ["git+https://remote"]}),
            {"far": "pip cannot install it: fatal: unable to access it"},
        )

    def test_a_package_that_an_environment_lacks_gives_a_reason(self):
        reasons = library_environment.missing(PYTHON)
        self.assertNotIn("torch", reasons)
        self.assertEqual(set(reasons.values()), {f"{package} is not installed" for package in reasons})
        empty = self.folder / "bin/empty"
        empty.write_text('#!/bin/sh\necho \'["Torch", "adamw_bf16"]\'\n')
        empty.chmod(0o755)
        self.assertEqual(
            set(library_environment.PACKAGES) - set(library_environment.missing(empty)), {"torch", "adamw-bf16"}
        )


class Shapes(unittest.TestCase):
    def test_the_shapes_are_those_of_the_models(self):
        lists = json.loads((ROOT / "bench/shapes.json").read_text())
        found = {name: (len(one["shapes"]), sum(map(count, one["shapes"]))) for name, one in lists.items()}
        self.assertEqual(found["gpt2"], (148, 124439808))
        self.assertEqual(found["resnet50"], (161, 25557032))
        self.assertEqual(found["one_tensor"], (1, 32 * 2**20))
        sizes = [count(shape) for shape in lists["small_tensors"]["shapes"]]
        self.assertEqual((len(sizes), min(sizes), max(sizes)), (700, 1000, 4000))


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch, matplotlib"], capture_output=True).returncode != 0:
        print(f"{PYTHON} has no torch and matplotlib; tools/setup.sh makes .deps/venv")
        sys.exit(77)
    unittest.main()
