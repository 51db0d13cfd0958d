#!/usr/bin/env python3
"""Tests of bench/scale.py: a run of two ranks, the page, a program that fails, and the model.

scale_test.py PROGRAM    PROGRAM is build/bench/scale_rank. Nothing is installed.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import scale_model
import scale_report
from scale_model import INFINIBAND, NVLINK, Job, Link

PROGRAM = sys.argv.pop()


class Runs(unittest.TestCase):
    def call(self, *arguments):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = pathlib.Path(folder.name, "scale.json")
        command = [
            sys.executable,
            ROOT / "bench/scale.py",
            "--workload",
            "tiny",
            "--rounds",
            "1",
            "--out",
            out,
            "--python",
            "/no/python",
            *arguments,
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return json.loads(out.read_text()), out.with_suffix(".md").read_text()

    def test_two_ranks_share_the_state_and_the_page_compares_the_model(self):
        result, page = self.call("--program", PROGRAM, "--only", "jitstep AdamW fp32", "--ranks", "2")
        ranks = result["runs"][0]["results"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        self.assertEqual(sum(rank["state_bytes"] for rank in ranks), 8 * ranks[0]["elements"])
        self.assertEqual(len({rank["hash"] for rank in ranks}), 1)
        self.assertGreater(ranks[0]["wire"]["average"][0], 2 * 4 * ranks[0]["elements"])
        self.assertEqual(len(ranks[0]["seconds"]["save parts"]), 3)
        self.assertRegex(page, r"\n\| jitstep AdamW fp32 \| 2 \| average \| ")
        self.assertIn("This is a prediction", page)

    def test_a_library_that_cannot_run_is_listed_with_the_reason(self):
        result, page = self.call(
            "--program", "/bin/false", "--only", "fp32", "--only", "DeepSpeed ZeRO-1", "--ranks", "2"
        )
        self.assertEqual([run["name"] for run in result["runs"]], ["jitstep AdamW fp32", "DeepSpeed ZeRO-1"])
        self.assertTrue(all("reason" in run for run in result["runs"]))
        self.assertEqual(page.count("not measured"), 2)


class Model(unittest.TestCase):
    def test_an_exchange_takes_a_message_to_each_other_rank_and_its_bytes(self):
        link = Link("any", latency=0.5, bandwidth=100)
        self.assertEqual(scale_model.exchange(400, 4, link, buckets=2), 2 * 3 * 0.5 + 300 / 100)
        self.assertEqual(scale_model.exchange(400, 1, link, buckets=2), 0)
        shared = Link("any", latency=0.5, bandwidth=100, shared=True)
        self.assertEqual(scale_model.exchange(400, 4, shared, buckets=2), 2 * 3 * 0.5 + 4 * 300 / 100)

    def test_two_levels_send_a_nodes_sums_once(self):
        job, free = Job(elements=800, width=4), Link("free", 0, 1e30)
        link = Link("any", 0, 1.0)
        levels = scale_model.two_level(job, 32, free, link)
        self.assertAlmostEqual(levels["gather"], 3200 / 8 * 3 / 4)
        self.assertAlmostEqual(levels["average"], 2 * levels["gather"])
        half = scale_model.two_level(Job(elements=800, width=2), 32, free, link)
        self.assertAlmostEqual(half["average"], 3 * half["gather"], msg="sums of bfloat16 travel as float32")

    def test_ranks_of_one_node_need_one_level(self):
        job = Job(elements=1 << 20, width=2)
        self.assertEqual(scale_model.two_level(job, 8, NVLINK, INFINIBAND), scale_model.flat(job, 8, NVLINK))

    def test_a_computer_is_calibrated_by_what_its_ranks_measured(self):
        link, memory = scale_model.calibrated(
            [{"bytes": 64, "seconds": 0.01}, {"bytes": 1000, "seconds": 0.11}], ranks=3, copy_seconds=0.5
        )
        self.assertAlmostEqual(link.latency, 0.005)
        self.assertAlmostEqual(link.bandwidth, 2000 / 0.1)
        self.assertAlmostEqual(scale_model.exchange(1000, 3, link, 1), 0.11)
        self.assertAlmostEqual(memory, (64 << 20) / 0.5)

    def test_the_prediction_has_a_row_for_each_network_and_number_of_ranks(self):
        rows = list(scale_report.predictions())
        self.assertEqual([row[1] for row in rows], ["64", "256", "1024", "4096"] * 2)
        self.assertTrue(all(float(row[5]) < float(row[4]) for row in rows), "two levels send fewer messages")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
