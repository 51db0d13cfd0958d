#!/usr/bin/env python3
"""Tests of bench/training.py and examples/char_transformer: runs of a few steps, a resumed run, the table and the plot.

training_test.py FOLDER    FOLDER is build/examples
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import benchmark

sys.path.insert(0, str(benchmark.ROOT / "bench"))
import training

FEW = ["--seeds", "1", "--limit", "256", "--steps", "3"]


class CharTransformer(benchmark.unittest.TestCase):
    def run_program(self, *arguments):
        program = pathlib.Path(benchmark.PROGRAM, "char_transformer")
        return subprocess.run([program, "--threads", "1", *arguments], capture_output=True, text=True)

    def test_it_learns_and_follows_torch_step_by_step(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_program("--steps", "40", "--optimizers", "torch-adamw,adamw", "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)  # 1 if the first losses differ
            report = json.loads(pathlib.Path(folder, "char_transformer.json").read_text())
        for run in report["runs"]:
            self.assertEqual(len(run["losses"]), 40)
            self.assertGreater(run["losses"][0], 4, "at first all characters are equally likely")
            self.assertLess(run["test_loss"], 3.5)
            self.assertGreater(run["test_accuracy"], 0.1)
            self.assertLess(run["test_accuracy"], 0.5, "the model sees the characters that it predicts")

    def test_a_folder_without_text_is_named_with_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_program("--data", folder, "--out", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{folder}: the text is too short", done.stderr)
            self.assertIn("apt install fortunes", done.stderr)


class Training(benchmark.BenchmarkTest):
    script = "training.py"
    program_flag = "--programs"

    def made(self):
        return [json.loads(line) for line in self.results.read_text().splitlines()]

    def test_runs_add_lines_and_a_second_call_only_what_is_missing(self):
        self.call(*FEW, "--format", "fp32", "--format", "int8")
        first = self.results.read_text()
        keys = [(run["task"], run["spec"]["state"]) for run in self.made()]
        self.assertEqual(
            keys,
            [
                ("fashion_mnist", "fp32"),
                ("char_transformer", "fp32"),
                ("fashion_mnist", "int8"),
                ("char_transformer", "int8"),
            ],
        )
        self.results.write_text(first + '{"task": "fash')  # the end of the file after a killed run
        table = self.call(*FEW, "--format", "int8", "--format", "weights split16")
        self.assertTrue(self.results.read_text().startswith(first))
        added = self.made()[4:]
        self.assertEqual([(run["spec"]["weights"], run["dtype"]) for run in added], [("split16", "bfloat16")] * 2)
        self.assertIn("| `fp32` | 12.00 |", table)
        self.assertIn("| `int8` | 6.05 |", table)
        self.assertIn("| `weights split16` | 12.00 |", table)
        self.assertIn("<svg", self.results.with_suffix(".svg").read_text())

    def test_the_table_marks_what_is_worse_than_float32(self):
        def lines(spec, dtype, accuracies):
            run = {
                "task": "char_transformer",
                "dtype": dtype,
                "batch": 8,
                "steps": 3,
                "state_bytes_per_parameter": 8.0,
                "spec": {"rule": "adamw", "options": {"lr": 2e-3, "weight_decay": 1e-2}} | spec,
                "date": "2026-01-01",
                "machine": "abacus, 1 cores",
                "threads": 1,
            }
            return [
                json.dumps(run | {"seed": seed, "test_accuracy": accuracy, "test_loss": 1 - accuracy}) + "\n"
                for seed, accuracy in enumerate(accuracies)
            ]

        self.results.write_text(
            "".join(
                lines({"state": "fp32"}, "float32", [0.88, 0.90, 0.92])
                + lines({"state": "bf16"}, "float32", [0.87, 0.91, 0.91])
                + lines({"weights": "kahan"}, "bfloat16", [0.86, 0.88, 0.90])
            )
        )
        table = self.call("--table", *FEW)
        self.assertIn("| `fp32` | 12.00 | 90.00 ± 1.15 | 0.1000 ± 0.0115 | 3 |", table)
        self.assertIn("| `bf16` | 12.00 | 89.67 ± 1.33 | 0.1033 ± 0.0133 | 3 |", table, "not in every seed")
        self.assertIn("| `weights kahan` | 10.00 | **88.00 ± 1.15** | **0.1200 ± 0.0115** | 3 |", table)
        self.assertNotIn("Fashion-MNIST: accuracy", table, "not run yet")
        self.assertEqual(self.results.with_suffix(".md").read_text(), table)

    def test_the_page_has_the_published_figures(self):
        arguments = training.parse_arguments(["--table"])
        of_task = training.by_format(training.read_results(training.PUBLISHED), arguments)
        self.assertIn(training.page_table(of_task), training.PAGE.read_text(), "call bench/training.py --table")


if __name__ == "__main__":
    benchmark.main(benchmark.FASHION_MNIST, benchmark.TEXT)
