"""Draws two panels from the JSON of `loadgen simulate`: p99.9 slowdown of short requests by load, a line a policy."""

import json
import math
import sys

PANELS = ["Poisson arrivals", "bursts: 2.2 x the rate for 10 ms, .4 x for 20 ms"]
COLOURS = {"isolated": "#c2483f", "steal": "#c98a1b", "pools": "#2f8f5b", "auto": "#2f6fd0"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 370, 250, 60, 44, 50
DECADES = 5


def curves(path):
    """The points of each policy: load and p99.9 of the short requests."""
    found = {}
    with open(path) as file:
        for run in json.load(file)["results"]:
            slowdown = run["slowdown"]["short"]["p99_9"]
            found.setdefault(run["policy"], []).append((run["load"], math.inf if slowdown is None else slowdown))
    return found


def panel(title, lines, left):
    def x(load):
        return left + load * WIDTH

    def y(slowdown):
        return TOP + HEIGHT * (1 - min(math.log10(max(slowdown, 1)), DECADES) / DECADES)

    yield f'<text x="{left}" y="{TOP - 14}" class="title">{title}</text>'
    for power in range(DECADES + 1):
        level = y(10**power)
        yield f'<line x1="{left}" x2="{left + WIDTH}" y1="{level:.1f}" y2="{level:.1f}" class="grid"/>'
        yield f'<text x="{left - 6}" y="{level + 4:.1f}" text-anchor="end">{10**power:,}</text>'
    for tenth in range(0, 11, 2):
        yield f'<text x="{x(tenth / 10):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{tenth / 10:g}</text>'
    yield f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">load</text>'
    named = []
    for policy, points in lines.items():
        path = " ".join(f"{'M' if n == 0 else 'L'}{x(load):.1f} {y(slowdown):.1f}" for n, (load, slowdown) in enumerate(points))
        yield f'<path d="{path}" stroke="{COLOURS[policy]}"/>'
        load, slowdown = points[-1]
        at = y(slowdown) + 4
        # If names of lines would overlap, move one of them down.
        while any(abs(at - other) < 14 for other in named):
            at += 1
        named.append(at)
        yield f'<text x="{x(load) + 5:.1f}" y="{at:.1f}" style="fill:{COLOURS[policy]}" class="name">{policy}</text>'


def load_panels(paths):
    yield 2 * (LEFT + WIDTH) + GAP + 30, TOP + HEIGHT + 44, "p99.9 slowdown of short requests by load under four policies"
    for place, (title, path) in enumerate(zip(PANELS, paths)):
        yield from panel(title, curves(path), LEFT + place * (LEFT + WIDTH + GAP))


picture = load_panels(sys.argv[1:])
width, height, label = next(picture)
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">')
print(
    "<style>text{font:13px system-ui,sans-serif;fill:#6b7280}.title{font-weight:600}.name{font-weight:600}"
    ".grid{stroke:#9ca3af;stroke-opacity:.35}path{fill:none;stroke-width:2.4;stroke-linejoin:round}</style>"
)
print("\n".join(picture))
print("</svg>")
