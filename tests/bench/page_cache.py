#!/usr/bin/env python3
"""What a file costs that is pushed, pulled once and read by two replicas: written into the page cache, or past it.

Writes and reads as registry-svc does (blocks of 512 KiB written, pieces of 256 KiB read), in this process alone, and prints the seconds
of CPU a GiB of each step: lowest, median and highest of all rounds. Modes are interleaved. A pause before each file lets the machine
give its free memory back where it does so (a guest whose host takes free pages), or keep it (`--pause 0`).
"""

import argparse
import ctypes
import mmap
import os
import resource
import statistics
import tempfile
import time

MIB, GIB = 2**20, 2**30
BLOCK, PIECE, AHEAD = 512 * 1024, 256 * 1024, 16 * MIB
STEPS = ["push", "first read", "replica reads", "replicas write", "sum"]
KEEP_SIZE = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cost(act, size):
    """Seconds of CPU for each GiB."""
    before = used()
    act()
    return (used() - before) * GIB / size


def write(path, block, size, direct):
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
    target = os.open(path, os.O_RDWR | os.O_DIRECT) if direct else file
    for at in range(0, size, BLOCK):
        if at % AHEAD == 0:
            LIBC.fallocate(file, KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(min(at + AHEAD, size)))
        os.pwrite(target, block, at)
    os.fdatasync(file)
    if target != file:
        os.close(target)
    os.close(file)


def read(path, piece, size):
    file = os.open(path, os.O_RDONLY)
    at = 0
    while at < size:
        at += os.preadv(file, [piece], at)
    os.close(file)


def measure(directory, direct, size, block, piece):
    paths = [os.path.join(directory, name) for name in ("pushed", "replica-1", "replica-2")]
    costs = [
        cost(lambda: write(paths[0], block, size, direct), size),
        cost(lambda: read(paths[0], piece, size), size),
        cost(lambda: [read(paths[0], piece, size) for _ in (1, 2)], size),
        cost(lambda: [write(path, block, size, direct) for path in paths[1:]], size),
    ]
    for path in paths:
        os.unlink(path)
    return [*costs, sum(costs)]


def main():
    accepted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    accepted.add_argument("--rounds", type=int, default=5)
    accepted.add_argument("--size", type=int, default=256, metavar="MIB")
    accepted.add_argument("--pause", type=float, default=6, metavar="SECONDS", help="before each file")
    accepted.add_argument("--directory", help="on the file system that is measured")
    options = accepted.parse_args()
    block, piece = mmap.mmap(-1, BLOCK), mmap.mmap(-1, PIECE)
    block.write(os.urandom(BLOCK))
    results = {"buffered": [], "direct": []}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for number in range(options.rounds):
            for mode in list(results)[:: 1 if number % 2 == 0 else -1]:
                time.sleep(options.pause)
                results[mode].append(measure(directory, mode == "direct", options.size * MIB, block, piece))
    print(f"{'s of CPU a GiB':16}" + "".join(f"{step:>20}" for step in STEPS))
    for mode, rounds in results.items():
        shown = (f"{min(step):.2f}/{statistics.median(step):.2f}/{max(step):.2f}" for step in zip(*rounds))
        print(f"{mode:16}" + "".join(f"{text:>20}" for text in shown))


if __name__ == "__main__":
    main()
