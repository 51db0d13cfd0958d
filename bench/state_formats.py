#!/usr/bin/env python3
"""Trains Fashion-MNIST with your own rule and with AdamW, in every built-in state format.

  bench/state_formats.py --rule examples/yogi.cuh            # the next call continues an incomplete one
  bench/state_formats.py --rule examples/yogi.cuh --table    # only writes the table

Runs are identified by the name of the rule's file. Delete the results after a change of the rule.
--options takes the rule's options as JSON. --codec, --seeds, --epochs and --limit select the runs.
"""

import argparse
import json
import pathlib
import sys

from training_runs import ROOT, mean_and_error, read_results, run_missing, where_and_when

ADAMW = {"rule": "adamw", "options": {"lr": 1e-3, "weight_decay": 1e-2}}
BATCH = 128


def builtin_codecs():
    return sorted(path.stem for path in (ROOT / "templates/codecs").glob("*.cuh"))


def wanted_runs(arguments):
    """The runs in order: all codecs with one seed, then with the next, so that early comparisons are complete."""
    custom = {"rule": arguments.rule.stem}
    if arguments.options:
        custom["options"] = arguments.options
    for seed in range(1, arguments.seeds + 1):
        for codec in arguments.codec or builtin_codecs():
            for spec in (ADAMW, custom):
                yield {
                    "spec": spec | {"state": codec},
                    "batch": BATCH,
                    "epochs": arguments.epochs,
                    "limit": arguments.limit,
                    "seed": seed,
                }


def of_settings(results, arguments):
    """The runs with the same --epochs, --limit and --options."""

    def same(run):
        options = run["spec"].get("options", {}) if run["spec"]["rule"] != "adamw" else arguments.options
        return (run["epochs"], run["limit"], options) == (arguments.epochs, arguments.limit, arguments.options)

    return [run for run in results if same(run)]


def columns(results):
    accuracy = mean_and_error([100 * r["test_accuracy"] for r in results], 2)
    size = f"{results[0]['state_bytes_per_parameter']:.2f}"
    return [size, accuracy, mean_and_error([r["train_loss"] for r in results], 4)]


def table(results, rule):
    """Markdown with a line for each codec that both rules were run in, the largest state first. Figures are mean and
    standard error over the seeds."""
    rules = ["adamw", rule]
    of = {}
    for r in results:
        of.setdefault((r["spec"]["state"], r["spec"]["rule"]), []).append(r)
    compared = {codec for codec, _ in of if all((codec, name) in of for name in rules)}
    size = {codec: of[codec, rule][0]["state_bytes_per_parameter"] for codec in compared}
    what = ("bytes/parameter", "accuracy, %", "training loss")
    head = ["state"] + [f"`{name}`: {column}" for name in rules for column in what]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for codec in sorted(size, key=lambda codec: (-size[codec], codec)):
        cells = [f"`{codec}`"]
        for name in rules:
            cells += columns(of[codec, name])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def caption(results, arguments):
    runs = results[0]
    seeds = len({r["seed"] for r in results})
    limit = f", the first {runs['limit']} images" if runs["limit"] else ""
    return (
        f"`bench/state_formats.py --rule {arguments.rule}`, {where_and_when(results)}, batch {runs['batch']}, "
        f"epochs: {runs['epochs']}{limit}. "
        f"Figures are mean and standard error of {seeds} seeds. Training loss: mean of the last epoch.\n"
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", type=pathlib.Path, required=True, help="the file of the rule")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the rule (default: its defaults)")
    parser.add_argument("--program", default=ROOT / "build/examples/fashion_mnist")
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        help="default: bench/results/state_formats_RULE.jsonl; the table has the same path with .md",
    )
    parser.add_argument("--codec", action="append", help="may be repeated (default: all built-in codecs)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="number of training images; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="run nothing")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    rule = arguments.rule.stem
    path = arguments.results or ROOT / f"bench/results/state_formats_{rule}.jsonl"
    if arguments.table:
        results = read_results(path)
    else:
        results = run_missing(
            wanted_runs(arguments), path, lambda _: arguments.program, arguments.threads, [arguments.rule]
        )
    results = of_settings(results, arguments)
    if not results:
        sys.exit(f"{path} has no runs with these settings. Call without --table first.")
    text = caption(results, arguments) + "\n" + table(results, rule)
    path.with_suffix(".md").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
