#!/usr/bin/env python3
"""Trains one network on Fashion-MNIST with torch's AdamW and with jitstep's optimizers, and compares them.

  fashion_mnist.py [--limit N] [--epochs N] [--batch N] [--data FOLDER]

All optimizers start from the same seed and get the same data order. Exit status 1 if the losses of torch's and
jitstep's AdamW with float32 state differ too much.
"""

import argparse
import gzip
import pathlib
import sys
import time
import zlib

import torch

import jitstep


def optimizers():
    """Name and constructor. Each gets the parameters."""
    return {
        "torch AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3),
        "AdamW": lambda p: jitstep.AdamW(p, lr=1e-3),
        "AdamW int8": lambda p: jitstep.AdamW(p, lr=1e-3, state="int8"),
        "AdamW int4": lambda p: jitstep.AdamW(p, lr=1e-3, state="int4"),
        "Lion int8": lambda p: jitstep.Lion(p, lr=1e-4, state="int8"),
        "LAMB": lambda p: jitstep.LAMB(p, lr=5e-3),
    }


def read(folder, name, header):
    try:
        with gzip.open(folder / name) as file:
            content = bytearray(file.read()[header:])
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(
            f"cannot read the data: {error}. Install the Debian or Ubuntu package dataset-fashion-mnist, or use --data"
        )
    return torch.frombuffer(content, dtype=torch.uint8)


def data(folder, part, limit):
    images = read(folder, f"{part}-images-idx3-ubyte.gz", 16).view(-1, 784)[:limit].float() / 255 - 0.5
    return images, read(folder, f"{part}-labels-idx1-ubyte.gz", 8)[:limit].long()


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )


def train(net, optimizer, images, labels, args):
    """The losses, and the seconds of all steps but the first, which may compile."""
    generator = torch.Generator().manual_seed(2)
    losses, seconds = [], 0.0
    for _ in range(args.epochs):
        for batch in torch.randperm(len(images), generator=generator).split(args.batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images[batch]), labels[batch])
            loss.backward()
            start = time.perf_counter()
            optimizer.step()
            seconds += time.perf_counter() - start if losses else 0.0
            losses.append(loss.item())
    return losses, seconds / max(1, len(losses) - 1)


def state_bytes(optimizer):
    return sum(v.nbytes for held in optimizer.state.values() for v in held.values() if isinstance(v, torch.Tensor))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--limit", type=int, default=60000, help="use only the first N training images")
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    if min(args.epochs, args.batch, args.limit) < 1:
        parser.error("--epochs, --batch and --limit must be at least 1")
    images, labels = data(args.data, "train", args.limit)
    test_images, test_labels = data(args.data, "t10k", 10000)
    print(f"{'optimizer':12} {'last loss':>9} {'accuracy':>8} {'state bytes/parameter':>21} {'ms per step':>11}")
    last = {}
    for name, make in optimizers().items():
        net = network()
        optimizer = make(net.parameters())
        losses, seconds = train(net, optimizer, images, labels, args)
        with torch.no_grad():
            accuracy = (net(test_images).argmax(1) == test_labels).float().mean().item()
        size = state_bytes(optimizer) / sum(p.numel() for p in net.parameters())
        last[name] = sum(losses[-20:]) / len(losses[-20:])
        print(f"{name:12} {last[name]:9.4f} {accuracy:8.3f} {size:21.2f} {1000 * seconds:11.3f}")
    if not abs(last["AdamW"] - last["torch AdamW"]) <= 1e-2 * last["torch AdamW"]:  # also if one is NaN
        sys.exit("the losses of torch's and jitstep's AdamW differ")


if __name__ == "__main__":
    main()
