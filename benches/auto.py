"""Prints the table of auto.sh, from the JSON documents of `forebay simulate` on standard input, one after the other."""

import json
import statistics
import sys

# A percentile that requests without an answer make infinite.
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


def main():
    cells = {}
    for document in documents(sys.stdin.read()):
        for run in document["results"]:
            figure = run["slowdown"]["all"]["p99_9"]
            cell = cells.setdefault((run["workers"], run["workload"], run["load"]), {})
            cell.setdefault(document["seed"], {})[run["policy"]] = NEVER if figure is None else figure
    print("| workers | mix | load | auto | best fixed | ratio |\n|---|---|---|---|---|---|")
    medians = []
    for (workers, mix, load), seeds in cells.items():
        ratios = []
        for figures in seeds.values():
            auto = figures.pop("auto")
            best = min(figures, key=figures.get)
            ratios.append(auto / figures[best])
        medians.append(statistics.median_low(ratios))
        auto, least, ratio = shown(auto, ".4g"), shown(figures[best], ".4g"), shown(medians[-1], ".2f")
        print(f"| {workers} | {mix} | {load} | {auto} | {best} {least} | {ratio} |")
    near, fair = (sum(median <= bound for median in medians) for bound in (1.1, 1.25))
    print(f"\n{len(medians)} cells: at most 1.1 in {near}, at most 1.25 in {fair}")


main()
