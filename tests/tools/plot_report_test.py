#!/usr/bin/env python3
"""Tests of tools/plot_report.py: it draws small reports, and those that the tool writes.

plot_report_test.py TOOL    TOOL is build/tools/jitstep
"""

import copy
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/tools/jitstep")
FAST = {"leaves_per_item": 64, "threads": 1, "tile_lanes": 1, "unroll": 1, "vector_elems": 256}
SLOW = FAST | {"leaves_per_item": 4}
TIMES = {"rounds": 9, "seconds": 0.0025, "default_seconds": 0.00315, "ratio": 0.8, "spread": 0.01}
TUNE = {
    "schema": 1,
    "workloads": [
        {
            "workload": "adamw <fp32>",
            "bytes": 29360128,
            "known_before": False,
            "record": {
                "hardware": {"target": "cpu", "name": "Abacus <3000> & sons", "units": 4, "bandwidth": 2e10},
                "versions": {"compiler": "gcc version 12.2.0"},
                "strategy": "local",
                "date": "2026-11-23",
                "outcome": "won",
                "configuration": FAST,
                "gain": 1.25,
                "spread": 0.015625,
                "trials": [
                    {"configuration": SLOW, "status": "timed", **TIMES, "ratio": 1.05},
                    {"configuration": FAST, "status": "timed", **TIMES},
                    {"configuration": FAST | {"simd_bits": 512}, "status": "does not compile", "detail": "no <room>"},
                ],
            },
        }
    ],
}
BENCH = {
    "schema": 1,
    "machine": "Abacus",
    "threads": 2,
    "rounds": 3,
    "date": "2026-11-23",
    "results": [
        {
            "workload": "adamw",
            "seconds": 1e-3,
            "bytes_per_second": 2e10,
            "of_bound": 0.9,
            "of_bound_quartiles": [0.8, 1.3],
        }
    ],
}


class PlotReport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def draw(self, report, status=0):
        """The page, or the error message if another status is expected."""
        source, page = self.folder / "in.json", self.folder / "out.html"
        source.write_text(report if isinstance(report, str) else json.dumps(report))
        done = subprocess.run(
            [sys.executable, ROOT / "tools/plot_report.py", source, page], stderr=subprocess.PIPE, text=True
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr if status else page.read_text()

    def check_page(self, page, pictures):
        """The page is self-contained: all addresses are names of XML namespaces."""
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertEqual((page.count("<svg"), page.count("</svg>")), (pictures, pictures))
        self.assertEqual(
            re.findall(r"<script|src=|@import|url\((?!#)|(?<!xmlns=\")(?<!xmlns:xlink=\")https?:", page), []
        )

    def test_trials_are_drawn_from_the_fastest_to_those_that_failed(self):
        page = self.draw(TUNE)
        self.check_page(page, 1)
        shown = ["0.800 ± 0.010 in 9 rounds", "1.050 ± 0.010 in 9 rounds", "does not compile: no &lt;room&gt;"]
        positions = [page.index(text) for text in shown]
        self.assertEqual(positions, sorted(positions))
        self.assertIn(">vector_elems 256", page.replace("leaves_per_item 64, unroll 1, ", ""))
        self.assertIn("won: 1.250 times as fast as the default (± 0.016)", page)
        self.assertIn("The default reaches 47 % of the 20.0 GB/s", page)
        self.assertEqual(page.count("stroke-dasharray"), 1, "the bandwidth baseline")
        self.assertEqual(page, self.draw(TUNE), "the same report gives the same page")

    def test_text_is_escaped(self):
        page = self.draw(TUNE)
        self.assertIn("Abacus &lt;3000&gt; &amp; sons", page)
        self.assertIn("<h2>adamw &lt;fp32&gt;</h2>", page)

    def test_each_workload_has_a_picture_or_its_problem(self):
        report = copy.deepcopy(TUNE)
        report["workloads"] += [
            copy.deepcopy(report["workloads"][0]),
            {"workload": "big", "problem": "too much scratch"},
        ]
        page = self.draw(report)
        self.check_page(page, 2)
        self.assertIn("<p>too much scratch</p>", page)
        names = re.findall(r'<(?:clipPath|path) id="(\w+)"', page)
        referenced = set(re.findall(r'(?:url\(|href=")#(\w+)', page))
        self.assertTrue(referenced)
        self.assertEqual([name for name in referenced if names.count(name) > 1], [], "pictures share no definitions")

    def test_wide_spreads_do_not_flatten_the_plot(self):
        report = copy.deepcopy(TUNE)
        report["workloads"][0]["record"]["trials"][0]["spread"] = 16
        report["workloads"][0]["record"]["hardware"]["bandwidth"] = 0
        ticks = [float(tick) for tick in re.findall(r">(\d\.\d+)</text>", self.draw(report))]
        self.assertTrue(ticks)
        self.assertTrue(min(ticks) >= 0.5 and max(ticks) <= 2, ticks)

    def test_benchmarks_are_drawn_as_shares_of_the_baseline(self):
        page = self.draw(BENCH)
        self.check_page(page, 1)
        for text in ("1.0000 ms, 20.0 GB/s", ">100%</text>", "Abacus, threads: 2, rounds: 3, 2026-11-23"):
            self.assertIn(text, page)

    def test_other_files_are_rejected(self):
        for other in ({}, [], {"schema": 2, "results": []}, {"schema": 1, "workloads": [{"candidates": []}]}):
            self.assertIn("is not a report of schema 1", self.draw(other, status=1))
        self.assertIn("cannot read", self.draw("{", status=1))

    def test_reports_of_the_tool_are_drawn(self):
        environment = os.environ | {"JITSTEP_CACHE_DIR": str(self.folder / "cache")}
        for command, flag in (
            (["tune", "--trials", "2", "--budget", "1m"], "--report"),
            (["bench", "--rounds", "2"], "--plot"),
        ):
            file = self.folder / "report.json"
            subprocess.run(
                [TOOL, *command, "--sizes", "4k", "--threads", "1", flag, file],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            page = self.draw(file.read_text())
            self.check_page(page, 1)
            self.assertIn("adamw_fp32_float32, one tensor of 4096 elements", page)


if __name__ == "__main__":
    if importlib.util.find_spec("matplotlib") is None:
        sys.exit(
            "plot_report_test.py needs the Python package matplotlib. Run tools/setup.sh, which installs it in "
            ".deps/venv."
        )
    unittest.main()
