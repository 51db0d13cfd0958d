"""A model of the time that ranks need to exchange gradients and parameters, for numbers of ranks that nobody measured
here.

Every rank sends a message to each other rank of its level, one after the other. A message takes the level's latency,
and its bytes take their share of the level's bandwidth. Copies into and out of buckets take the memory's bandwidth.
Nothing overlaps. Contention, stragglers and the topology of switches are left out: results are lower bounds of a step.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A level of the network. `shared`: all ranks together have this bandwidth, as processes of one computer have."""

    name: str
    latency: float  # seconds for each message
    bandwidth: float  # bytes per second that a rank can send
    shared: bool = False


# Figures of data sheets for eight GPUs per node. Latencies are those of a message between GPUs, by order of magnitude.
NVLINK = Link("NVLink 4", 3e-6, 450e9)
INFINIBAND = Link("InfiniBand NDR", 6e-6, 50e9)
ETHERNET = Link("100 Gbit/s Ethernet", 25e-6, 12.5e9 / 8)  # one adapter for eight GPUs
GPUS_PER_NODE = 8
MEMORY = 3.0e12  # bytes per second of an H100's memory


@dataclass(frozen=True)
class Job:
    """What is exchanged in a step. `width`: bytes of a gradient and of a parameter."""

    elements: int
    width: int
    bucket_bytes: int = 32 << 20
    state_bytes: float = 2.0  # per element
    memory: float = MEMORY


def exchange(size, ranks, link, buckets):
    """Seconds of an all-to-all or all-gather after which every rank has received (ranks - 1) / ranks * size bytes."""
    if ranks == 1:
        return 0.0
    volume = size * (ranks - 1) / ranks * (ranks if link.shared else 1)
    return buckets * (ranks - 1) * link.latency + volume / link.bandwidth


def buckets_of(job):
    return math.ceil(job.elements * job.width / job.bucket_bytes)


def flat(job, ranks, link):
    """One level: gradients there, their means back, and then the parameters."""
    size, buckets = job.elements * job.width, buckets_of(job)
    one = exchange(size, ranks, link, buckets)
    return {"average": 2 * one, "gather": one}


def two_level(job, ranks, inner, outer, per_node=GPUS_PER_NODE):
    """Ranks of a node exchange first. They then have sums of their node, in float32, of which each sends its share
    only.

    A node of the tree of sums over neighboring ranks is a subtree, so the result has the same bits as with one level.
    """
    if ranks <= per_node:
        return flat(job, ranks, inner)
    nodes, size, buckets = ranks // per_node, job.elements * job.width, buckets_of(job)
    share = size / per_node
    within = exchange(size, per_node, inner, buckets)
    there = exchange(share * 4 / job.width, nodes, outer, buckets)
    back = exchange(share, nodes, outer, buckets)
    return {"average": 2 * within + there + back, "gather": within + back}


def copies(job, ranks):
    """Seconds for copies by each rank: gradients into buckets, sums, and means and parameters back."""
    if ranks == 1:
        return {"average": 0.0, "gather": 0.0}
    size = job.elements * job.width
    return {"average": 2 * 3 * size / job.memory, "gather": 2 * size / job.memory}


def update(job, ranks):
    """Seconds to read and write gradients, parameters and state of a rank's part."""
    return (3 * job.width + 2 * job.state_bytes) * job.elements / ranks / job.memory


def prediction(job, ranks, exchanges):
    """Seconds of averaging, of a step, and of both. `exchanges`: of flat() or two_level()."""
    copied = copies(job, ranks)
    average = exchanges["average"] + copied["average"]
    step = exchanges["gather"] + copied["gather"] + update(job, ranks)
    return {"average": average, "step": step, "total": average + step}


def calibrated(measured, ranks, copy_seconds):
    """The link and the memory of a computer whose ranks measured all-gathers: [{"bytes", "seconds"}], from small to
    large."""
    small, large = measured[0], measured[-1]
    latency = small["seconds"] / (ranks - 1)
    volume = large["bytes"] * (ranks - 1)  # of all ranks
    bandwidth = volume / max(large["seconds"] - small["seconds"], 1e-9)
    memory = 2 * (32 << 20) / copy_seconds
    return Link("gloo", latency, bandwidth, shared=True), memory
