#!/usr/bin/env python3
"""Does the default policy keep what it has learnt, if the mix of requests alternates? In virtual time, with 2 workers.

For some seconds, nine in ten requests take 4 us, the tenth 100 us. Then, for as long, 99 % take 20 us and 1 % 2 ms, and so on. The
load stays the same. Prints the p99.9 slowdown of the light requests for each load and period: under `auto`, under `levels` with
the best of three slices, and under `srpt`, which knows what requests cost. Needs `cargo build --release`.

    LOADS=.5,.8 PERIODS=1,5 benches/alternating.py
"""
import json
import os
import random
import subprocess
import tempfile

BIN = os.environ.get("BIN", "target/release")
# Share and CPU time of light and of heavy requests, in nanoseconds.
MIXES = (((0.9, 4_000), (0.1, 100_000)), ((0.99, 20_000), (0.01, 2_000_000)))
WORKERS = 2
# Receiving a datagram and sending a reply, with the overheads `stock`.
BESIDE = 2_680
SLICES = ("10us", "25us", "50us")


def mean(mix):
    return sum(share * cost for share, cost in mix) + BESIDE


def write_trace(path, load, period):
    """Requests for twelve periods, and at least 36 s. The first third is the warm-up."""
    seconds = max(36, 12 * period)
    draw = random.Random(1)
    now = 0.0
    with open(path, "w") as trace:
        trace.write(f"forebay-trace/1 time-scale=1 burn=cpu workers={WORKERS} seed=1 warmup={seconds // 3}s workload=file\n")
        trace.write("# intended sent class cost flow socket\n")
        while now < seconds * 1e9:
            light, heavy = mix = MIXES[int(now / 1e9 / period) % 2]
            now += draw.expovariate(load * WORKERS / mean(mix))
            kind, cost = ("short", light[1]) if draw.random() < light[0] else ("long", heavy[1])
            trace.write(f"{now / 1e3:.3f}us {now / 1e3:.3f}us {kind} {cost}ns {draw.randrange(64)} {draw.randrange(WORKERS)}\n")


def simulated(trace, *flags):
    """The p99.9 slowdown of light requests under each policy."""
    with tempfile.NamedTemporaryFile(suffix=".json") as found:
        command = [f"{BIN}/loadgen", "simulate", "--replay", trace, "--overheads", "stock", "--quiet", "--json", found.name]
        subprocess.run([*command, *flags], check=True, stdout=subprocess.DEVNULL)
        return [run["slowdown"]["short"]["p99_9"] for run in json.load(found)["results"]]


def main():
    print("| load | period | `auto` | `levels`, best slice | `srpt` |\n|---|---|---|---|---|")
    for load in map(float, os.environ.get("LOADS", ".5,.8").split(",")):
        for period in map(int, os.environ.get("PERIODS", "1,5").split(",")):
            with tempfile.NamedTemporaryFile(suffix=".txt") as trace:
                write_trace(trace.name, load, period)
                auto, srpt = simulated(trace.name, "--policy", "auto,srpt")
                levels = [(*simulated(trace.name, "--policy", "levels", "--slice", slice), slice) for slice in SLICES]
            best, slice = min(levels)
            print(f"| {load} | {period} s | {auto:.3g} | {best:.3g}, {slice} | {srpt:.3g} |", flush=True)


main()
