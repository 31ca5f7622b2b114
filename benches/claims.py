#!/usr/bin/env python3
"""Are the figures of benches/README.md those of its commands?

    benches/claims.py [WORD]

Runs the command of each row of the page that begins with `loadgen`, as far as the row contains WORD, and prints what the
page says beside what the command says. Virtual time does not depend on the machine, so both must be the same text. Ends
with 1 where one differs. Needs `cargo build --release`. BIN names another folder with the programs.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

PAGE = pathlib.Path(__file__).with_name("README.md")
BIN = os.environ.get("BIN", "target/release")
# If no other program runs, a command of the page takes at most a minute.
SECONDS_MAX = 600


def digits(value):
    """Three significant digits, as the page writes figures."""
    if value is None:
        return "inf"
    text = f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
    return text


def simulated(result, policy, kind, percentile):
    """The figure of `policy` that a row quotes, by class and percentile; the load that it sustains for a search."""
    found = [one for one in result["results"] if one["policy"] == policy]
    if "max_load" in found[0]:
        return f"{found[0]['max_load']:.2f}".lstrip("0")
    where, name = ("latency_us", "all") if kind == "latency" else ("slowdown", kind)
    return digits(found[0][where][name][percentile])


def planned(result):
    """The policy and the workers that a plan recommends."""
    best = result["recommendation"]
    return f"`{best['policy']}`, {best['workers']}"


def run(command):
    """What the command writes as JSON."""
    program, *flags = shlex.split(command)
    with tempfile.NamedTemporaryFile() as file:
        arguments = [os.path.join(BIN, program), *flags, "--quiet", "--json", file.name]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)
        return json.load(file)


def told(cell, result, kind, percentile):
    """`cell` with each figure in place of what follows the name of a policy: `auto 3.06, steal 46.7`."""
    if "recommendation" in result:
        return planned(result)
    return re.sub(r"`(\w+)` [\w.,]*\w", lambda name: f"`{name[1]}` {simulated(result, name[1], kind, percentile)}", cell)


def rows():
    for line in PAGE.read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and cells[-1].strip("| ").startswith("`loadgen"):
            yield cells[:-1], cells[-1].strip("| ").strip("`").replace("\\|", "|")


def main():
    wanted, differ, count = sys.argv[1] if len(sys.argv) > 1 else "", 0, 0
    for (claim, kind, figures), command in rows():
        if wanted not in claim + command:
            continue
        began = time.monotonic()
        of, percentile = kind.split(" ")[0], kind.split(" ")[-1].replace(".", "_")
        measured = told(figures, run(command), of, percentile)
        agrees = measured == figures
        count += 1
        differ += not agrees
        print(f"{'agrees ' if agrees else 'DIFFERS'} {time.monotonic() - began:5.1f} s  {claim}: {figures}", flush=True)
        if not agrees:
            print(f"                 the command says {measured}")
    print(f"{count} rows, {count - differ} agree")
    sys.exit(bool(differ) or count == 0)


main()
