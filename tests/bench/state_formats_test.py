#!/usr/bin/env python3
"""Tests of bench/state_formats.py: runs of a few steps, a resumed run, and the table.

state_formats_test.py PROGRAM    PROGRAM is build/examples/fashion_mnist
"""

import json

import benchmark


class StateFormats(benchmark.BenchmarkTest):
    script = "state_formats.py"
    always = ("--rule", benchmark.ROOT / "examples/signum.cuh")

    def test_runs_add_lines_and_a_second_call_only_what_is_missing(self):
        few = ["--seeds", "1", "--limit", "256", "--codec", "int8"]
        self.call(*few)
        first = self.results.read_text()
        made = [json.loads(line) for line in first.splitlines()]
        self.assertEqual([run["spec"]["rule"] for run in made], ["adamw", "signum"])
        self.assertGreater(made[1]["train_loss"], 0.5)
        self.results.write_text(first + '{"spec": {"ru')  # the end of the file after a killed run
        table = self.call(*few, "--codec", "bf16")
        lines = self.results.read_text().splitlines(keepends=True)
        self.assertEqual("".join(lines[:2]), first)
        self.assertEqual([json.loads(line)["spec"]["state"] for line in lines[2:]], ["bf16", "bf16"])
        self.assertLess(table.index("| `bf16` | 4.00 |"), table.index("| `int8` | 2.05 |"))
        self.assertIn(" | 1.02 | ", table, "Signum has one slot")

    def test_the_table_has_mean_and_standard_error(self):
        run = {
            "batch": 128,
            "epochs": 1,
            "limit": 0,
            "state_bytes_per_parameter": 8.0,
            "date": "2026-01-01",
            "machine": "abacus, 1 cores",
            "threads": 1,
        }
        values = [(0.88, 0.1), (0.90, 0.2), (0.92, 0.3)]
        self.results.write_text(
            "".join(
                json.dumps(
                    run
                    | {
                        "spec": {"rule": rule, "state": state},
                        "seed": seed,
                        "test_accuracy": accuracy,
                        "train_loss": loss,
                    }
                )
                + "\n"
                for rule, state in (("adamw", "fp32"), ("signum", "fp32"), ("adamw", "bf16"))
                for seed, (accuracy, loss) in enumerate(values)
            )
        )
        table = self.call("--table")
        self.assertNotIn("bf16", table, "there is no fp32 run to compare with")
        both = "8.00 | 90.00 ± 1.15 | 0.2000 ± 0.0577"
        self.assertIn(f"| `fp32` | {both} | {both} |", table)
        self.assertIn("abacus, 1 cores (1 in use), 2026-01-01", table)
        self.assertEqual(self.results.with_suffix(".md").read_text(), table)

    def test_the_table_has_only_runs_with_the_same_settings(self):
        run = {
            "batch": 128,
            "limit": 0,
            "state_bytes_per_parameter": 8.0,
            "date": "2026-01-01",
            "machine": "abacus, 1 cores",
            "threads": 1,
            "seed": 1,
            "train_loss": 0.1,
        }
        text = "".join(
            json.dumps(run | {"epochs": epochs, "spec": {"rule": rule, "state": "fp32"}, "test_accuracy": accuracy})
            + "\n"
            for rule in ("adamw", "signum")
            for epochs, accuracy in ((1, 0.2), (5, 0.9))
        )
        self.results.write_text(text.rstrip("\n"))  # the end of a file that was edited
        self.assertIn("| 8.00 | 20.00 |", self.call("--table"))
        self.assertIn("| 8.00 | 90.00 |", self.call("--table", "--epochs", "5"))
        self.assertEqual(self.results.read_text(), text.rstrip("\n"))


if __name__ == "__main__":
    benchmark.main()
