#!/usr/bin/env python3
"""Tests of bench/lamb16.py: a run of a few steps, a resumed run, and the table.

lamb16_test.py PROGRAM    PROGRAM is build/examples/fashion_mnist
"""

import json

import benchmark


class Lamb16Benchmark(benchmark.BenchmarkTest):
    script = "lamb16.py"

    def test_a_run_adds_a_line_and_a_second_call_only_what_is_missing(self):
        few = ["--seeds", "1", "--batch", "128", "--epochs", "1", "--limit", "384"]
        self.call(*few, "--optimizer", "lamb16 corrected")
        first = self.results.read_text()
        made = json.loads(first)
        self.assertEqual(made["spec"]["options"]["form"], "corrected")
        self.assertGreater(made["test_accuracy"], 0.05)
        self.assertGreater(made["train_loss"], 0.5)
        self.results.write_text(first + '{"optimizer": "ad')  # the end of the file after a killed run
        table = self.call(*few, "--optimizer", "lamb16 corrected", "--optimizer", "lamb16 original")
        lines = self.results.read_text().splitlines(keepends=True)
        self.assertEqual(lines[0], first)
        self.assertEqual([json.loads(line)["optimizer"] for line in lines[1:]], ["lamb16 original"])
        self.assertIn("| lamb16 corrected |", table)
        self.assertIn("| lamb16 original | 2.00 |", table)

    def test_the_table_has_mean_and_standard_error(self):
        run = {
            "optimizer": "adam",
            "spec": {"options": {"lr": 0.02, "weight_decay": 0.01}},
            "batch": 1024,
            "epochs": 10,
            "limit": 0,
            "state_bytes_per_parameter": 8.0,
            "date": "2026-01-01",
            "machine": "abacus, 1 cores",
            "threads": 1,
        }
        values = [(0.88, 0.1), (0.90, 0.2), (0.92, 0.3)]
        self.results.write_text(
            "".join(
                json.dumps(run | {"seed": seed, "test_accuracy": accuracy, "train_loss": loss}) + "\n"
                for seed, (accuracy, loss) in enumerate(values)
            )
        )
        table = self.call("--table")
        self.assertIn("| adam | 8.00 | 90.00 ± 1.15 | 0.2000 ± 0.0577 | 3 |", table)
        self.assertEqual(self.results.with_suffix(".md").read_text(), table)


if __name__ == "__main__":
    benchmark.main()
