"""Writes the page with the results of bench/scale.py."""

import statistics

import scale_model
from scale_model import ETHERNET, GPUS_PER_NODE, INFINIBAND, NVLINK, Job

HEAD = """# Several ranks: state, traffic, time and bits

| | |
|---|---|
| command | `bench/scale.py` |
| machine | {machine} |
| date, revision | {date}, `{revision}` |
| load before a run | {load} |
| network | gloo over {network} |
| parameters | {title}, float32 |
| numbers | [JSON]({numbers}) |

{note}Every library trains the same parameters, with the same gradients on all ranks, AdamW, weight decay and a maximum norm of 1.
Ranks are processes with one thread each. Times are medians of {rounds} steps, of the slowest rank in each.

| column | meaning |
|---|---|
| state | bytes per parameter on the rank that has most |
| of a share | that, relative to an equal share of what one rank has |
| wire | bytes that all ranks send in a step, with TCP's headers |
| of the least | that, relative to the least: a reduce-scatter of gradients and an all-gather of parameters, `2 (ranks - 1)` times the bytes of the parameters. An all-reduce of gradients instead makes it 1.5. gloo's reduce-scatter sends as much as an all-reduce |
| backward, average, step | seconds. Libraries that reduce gradients in `backward()` have no time of their own for it |
| bits | whether the parameters after all steps are those of one rank. FSDP2 clips with torch's `clip_grad_norm_`, whose sum depends on the shards |

DeepSpeed keeps a float32 copy of the parameters, which counts as state. Its checkpoints also contain the model.
It steps with `torch_adam`, which is torch's AdamW without `fused`. Its own DeepSpeedCPUAdam is [as fast as jitstep](comparison.md).

"""


def median(values):
    return statistics.median(values)


def slowest(run, phase):
    """The median over rounds of the slowest rank's time. None if the run has no such phase."""
    columns = [rank["seconds"].get(phase) for rank in run["results"]]
    if None in columns:
        return None
    return median([max(times) for times in zip(*columns)])


def wire(run):
    """Bytes that all ranks send in a step."""
    phases = run["results"][0]["wire"]
    return sum(median(values) for name, values in phases.items() if name in ("backward", "average", "step"))


def state(run):
    return max(rank["state_bytes"] for rank in run["results"]) / run["results"][0]["elements"]


def seconds(value):
    return "" if value is None else f"{value:.3f}"


def least_bytes(run):
    """Of a reduce-scatter of gradients and an all-gather of parameters, in float32."""
    return 2 * (run["ranks"] - 1) * 4 * run["results"][0]["elements"]


def measured_rows(runs):
    alone = {run["name"]: run for run in runs if run["ranks"] == 1 and "results" in run}
    for run in runs:
        if "results" not in run:
            yield [run["name"], str(run["ranks"]), f"not measured: {run['reason']}"] + [""] * 8
            continue
        one = alone.get(run["name"])
        share = f"{state(run) * run['ranks'] / state(one):.3f}" if one else ""
        sent = wire(run)
        relative = f"{sent / least_bytes(run):.2f}" if run["ranks"] > 1 else ""
        times = [slowest(run, phase) for phase in ("backward", "average", "step")]
        total = sum(time for time in times if time is not None)
        same = (
            ""
            if run["ranks"] == 1 or not one
            else ("same" if run["results"][0]["hash"] == one["results"][0]["hash"] else "differ")
        )
        yield [
            run["name"],
            str(run["ranks"]),
            f"{state(run):.3f}",
            share,
            f"{sent / 1e6:.1f} MB",
            relative,
            *map(seconds, times),
            seconds(total),
            same,
        ]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def checkpoint_rows(runs):
    for run in runs:
        if "results" not in run:
            continue
        times = [slowest(run, f"{what} {form}") for form in ("file", "parts") for what in ("save", "load")]
        if any(time is not None for time in times):
            yield [run["name"], str(run["ranks"]), *map(seconds, times)]


def expected(run, source):
    """The model's prediction for a run, with the latency, bandwidth and memory that another run measured."""
    first = source["results"][0]
    link, memory = scale_model.calibrated(first["exchanges"], source["ranks"], first["copy_seconds"])
    elements, own = run["results"][0]["elements"], run["results"][0]["state_bytes"]
    job = Job(elements, 4, state_bytes=own * run["ranks"] / elements, memory=memory)
    return scale_model.prediction(job, run["ranks"], scale_model.flat(job, run["ranks"], link))


def checks(runs):
    """Predictions for the measured runs, from exchanges of two ranks and from their own: rows of a table."""
    ours = [run for run in runs if run["ranks"] > 1 and "exchanges" in run.get("results", [{}])[0]]
    two = next((run for run in ours if run["ranks"] == 2), None)
    for run in ours:
        for phase in ("average", "step"):
            time, own = slowest(run, phase), expected(run, run)[phase]
            other = expected(run, two)[phase] if two else None
            yield [
                run["name"],
                str(run["ranks"]),
                phase,
                seconds(other),
                seconds(own),
                seconds(time),
                f"{time / own:.2f}",
            ]


def predictions():
    """Rows for ranks that were not measured: GPUs that train 7 billion parameters in bfloat16 with int8 state."""
    job = Job(7_000_000_000, 2)
    large = Job(7_000_000_000, 2, bucket_bytes=1 << 30)
    for outer in (INFINIBAND, ETHERNET):
        for ranks in (64, 256, 1024, 4096):
            one = scale_model.prediction(job, ranks, scale_model.flat(job, ranks, outer))
            two = scale_model.prediction(job, ranks, scale_model.two_level(job, ranks, NVLINK, outer))
            few = scale_model.prediction(large, ranks, scale_model.two_level(large, ranks, NVLINK, outer))
            yield [
                outer.name,
                str(ranks),
                *(seconds(one[key]) for key in ("average", "step", "total")),
                seconds(two["total"]),
                seconds(few["total"]),
                f"{scale_model.update(job, ranks) * 1e3:.3f}",
            ]


def page(result, numbers):
    names = list(dict.fromkeys(run["name"] for run in result["runs"]))
    runs = sorted(result["runs"], key=lambda run: (names.index(run["name"]), run["ranks"]))
    text = HEAD.format(
        machine=result["machine"],
        date=result["date"],
        revision=result["revision"],
        network=result["network"],
        load=f"{min(result['load_average']):.1f} to {max(result['load_average']):.1f}",
        title=result["title"],
        numbers=numbers,
        rounds=result["rounds"],
        note=f"{result['note']}\n" if result["note"] else "",
    )
    text += table(
        ["", "ranks", "state, B", "of a share", "wire", "of the least", "backward", "average", "step", "all", "bits"],
        measured_rows(runs),
    )
    text += "\n## Checkpoints\n\nSeconds, of the slowest rank. jitstep has both forms. Other libraries have one.\n\n"
    text += table(["", "ranks", "save a file", "load", "save parts", "load"], checkpoint_rows(runs))
    text += """
## The model against the measurements

`bench/scale_model.py` takes latency, bandwidth and the speed of copies from exchanges without an optimizer: of two ranks, or of as
many ranks as the row has. It assumes that ranks of one computer share its bandwidth.
The last column is the measured time relative to the prediction from as many ranks.

"""
    text += table(["", "ranks", "phase", "from 2 ranks", "from as many", "measured", "ratio"], checks(runs))
    text += f"""
## Prediction for many ranks

**This is a prediction. Nothing in this section was measured.**

The model has no contention, no stragglers, and no overlap with `backward()`. NVLink: {NVLINK.latency * 1e6:.0f} us for a message, {NVLINK.bandwidth / 1e9:.0f} GB/s.
InfiniBand: {INFINIBAND.latency * 1e6:.0f} us, {INFINIBAND.bandwidth / 1e9:.0f} GB/s for each GPU. Ethernet: {ETHERNET.latency * 1e6:.0f} us, {ETHERNET.bandwidth / 1e9:.2f} GB/s for each GPU.
7 billion parameters in bfloat16 with int8 state, nodes of {GPUS_PER_NODE} GPUs, seconds of a step.

- One level: a rank sends a message to every other rank for each bucket of 32 MB. This is what jitstep does today if the back end does it too.
- Two levels: ranks of a node add their gradients first. jitstep does not do this yet.

"""
    text += table(
        [
            "between nodes",
            "ranks",
            "average",
            "step",
            "all",
            "two levels",
            "two levels, buckets of 1 GB",
            "update alone, ms",
        ],
        predictions(),
    )
    return text
