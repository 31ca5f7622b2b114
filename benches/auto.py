"""Prints the table of auto.sh, from the JSON documents of `loadgen simulate` on standard input, one after the other."""

import json
import statistics
import sys

# Stands for an infinite percentile: one that falls on an unanswered request.
NEVER = 1e300


def documents(text):
    """The JSON values in `text`, with white space between them."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()


def shown(figure, digits):
    return "inf" if figure >= NEVER / 1e10 else f"{figure:{digits}}"


def figures(run):
    """p99.9 of the slowdown and of the latency, and whether the workers fall behind."""
    found = [run[kind]["all"]["p99_9"] for kind in ("slowdown", "latency_us")]
    return [*(NEVER if figure is None else figure for figure in found), run["unstable"]]


def main():
    cells = {}
    for document in documents(sys.stdin.read()):
        for run in document["results"]:
            cell = cells.setdefault((run["workers"], run["workload"], run["load"]), {})
            cell.setdefault(document["seed"], {})[run["policy"]] = figures(run)
    print("| workers | mix | load | auto | best fixed | ratio | latency, over `global` |\n|---|---|---|---|---|---|---|")
    medians = []
    for (workers, mix, load), seeds in cells.items():
        ratios, latencies, behind = [], [], []
        for runs in seeds.values():
            auto, latency, unstable = runs.pop("auto")
            best = min(runs, key=runs.get)
            ratios.append(auto / runs[best][0])
            latencies.append(latency / runs["global"][1])
            behind.append(unstable and not runs["global"][2])
        medians.append([statistics.median_low(each) for each in (ratios, latencies, behind)])
        auto, least = shown(auto, ".4g"), shown(runs[best][0], ".4g")
        ratio, latency = shown(medians[-1][0], ".2f"), shown(medians[-1][1], ".3g")
        print(f"| {workers} | {mix} | {load} | {auto} | {best} {least} | {ratio} | {latency} |")
    near, fair = (sum(ratio <= bound for ratio, _, _ in medians) for bound in (1.1, 1.25))
    quick, behind = sum(latency <= 5 for _, latency, _ in medians), sum(behind for _, _, behind in medians)
    print(f"\n{len(medians)} cells: at most 1.1 in {near}, at most 1.25 in {fair}; latency at most 5 in {quick}")
    print(f"`auto` is unstable and `global` is not in {behind}")


main()
