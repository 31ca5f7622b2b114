#!/usr/bin/env python3
"""Are the figures of benches/README.md, README.md and CHANGELOG.md those of the commands that give them?

    benches/claims.py [--check] [--whole | --draw ROWS --seed SEED] [WORD]

A row of benches/README.md is run if its last cell begins with `loadgen`: virtual time does not depend on the machine, so the
page and the command must say the same text. Rows of `benches/auto.sh` take long, and only `--whole` runs them. Every other
table stands below a comment `<!-- not run: WHY -->`. Each number in README.md and CHANGELOG.md has an entry in
benches/claims.toml: a command and what it prints, or why none gives it.

Prints what agrees, what differs and what was NOT RUN. Ends with 1 if something differs, or has neither a command nor a reason.
`--check` runs nothing. `--draw` runs only so many of the rows, chosen by the seed. With WORD only what contains it. Needs
`cargo build --release`; BIN names another folder with the programs.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib

BIN = os.environ.get("BIN", "target/release")
# If no other program runs, a command of the page takes at most a minute.
SECONDS_MAX = 600
# auto.sh simulates some hundred cells.
SCRIPT_SECONDS_MAX = 7_200
NUMBER = r"(?<![\w.,])\.?\d+(?:,\d{3})*(?:\.\d+)?"


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


def row_told(cells, command):
    """The figures of a row as its command gives them."""
    _, kind, figures = cells
    return told(figures, run(command), kind.split(" ")[0], kind.split(" ")[-1].replace(".", "_"))


def script_told(cells, command):
    """The figures of a row that counts cells, with the counts that the script prints."""
    said = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True, timeout=SCRIPT_SECONDS_MAX)
    counts = dict(re.findall(r"at most (1\.\d+) in (\d+)", said.stdout))
    cells_in_all = re.search(r"^(\d+) cells:", said.stdout, re.M)[1]
    figures = re.sub(
        r"(1\.\d+)((?: times)?(?: the p99\.9)?) in \d+", lambda part: f"{part[1]}{part[2]} in {counts[part[1]]}", cells[1]
    )
    return re.sub(r" of \d+", f" of {cells_in_all}", figures)


def tables(text):
    """The rows of each table as lists of cells, with the reason why nothing runs them, or None."""
    reason, rows = None, []
    for line in [*text.split("\n"), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split(" | ")])
            continue
        if rows:
            yield rows[2:], reason
            rows, reason = [], None
        if mark := re.fullmatch(r"<!-- not run: (.+) -->", line.strip()):
            reason = mark[1]
        elif line.strip():
            reason = None


def rows_of(page, whole):
    """Each row of the page: its name, the page's figures, what gives them, or why nothing does."""
    for rows, reason in tables(page.read_text(encoding="utf-8")):
        for *cells, last in rows:
            command = last.strip("`").replace("\\|", "|")
            if last.startswith("`loadgen "):
                yield cells[0], cells[2], lambda c=cells, of=command: row_told(c, of), None
            elif re.match(r"`(\w+=\S+ )*benches/auto\.sh`", last):
                long = None if whole else "takes long: --whole runs it"
                yield cells[0], cells[1], lambda c=cells, of=command: script_told(c, of), long
            else:
                yield cells[0], None, None, reason


def prose(text):
    """The text of a page without code, links and old names, and with lines joined."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M)
    text = re.sub(r"^\|.*|^#.*", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(re.sub(r"`[^`]*`", lambda code: "`" + re.sub(r"\d", "#", code[0].strip("`")) + "`", text).split())


def printed(entry):
    """What the command of an entry prints, to both outputs, and its exit code."""
    program, *arguments = shlex.split(entry["command"])
    path = os.path.join(BIN, program) if program in ("forebay", "loadgen") else program
    ended = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    return f"{ended.stdout}{ended.stderr}\nexit code {ended.returncode}\n"


def number_told(entry):
    """`says` with the numbers that the command prints."""
    said = " ".join(printed(entry).split())
    found = re.search(entry["prints"], said)
    if not found:
        return f"nothing like {entry['prints']!r}"
    numbers = iter(found.groups())
    return re.sub(NUMBER, lambda number: grouped(next(numbers, "?"), number[0]), entry["says"])


def grouped(printed_number, written):
    """A number as the page writes numbers, with commas if `written` has some."""
    return f"{int(printed_number):,}" if "," in written and printed_number.isdigit() else printed_number


def numbers_of(root, entries):
    """Each number in the prose of README.md and CHANGELOG.md, by its entry; or that it has none."""
    for page in ("README.md", "CHANGELOG.md"):
        text = prose((root / page).read_text(encoding="utf-8"))
        for entry in entries:
            if entry["page"] != page:
                continue
            says = entry["says"]
            if says not in text:
                yield f"{page}: {says}", None, None, None
            elif "command" in entry:
                yield f"{page}: {says}", says, lambda one=entry: number_told(one), None
            else:
                yield f"{page}: {says}", None, None, entry["not_run"]
            text = text.replace(says, " " * len(says))
        for number in re.finditer(NUMBER, text):
            around = text[max(0, number.start() - 40) : number.end() + 30].strip()
            yield f"{page}: ..{around}..", None, None, None


def blocks_of(root, blocks):
    """Each block of code that quotes what a command prints, from the line that begins so."""
    for block in blocks:
        lines = (root / block["page"]).read_text(encoding="utf-8").split("\n")
        first = next(number for number, line in enumerate(lines) if line.startswith(block["begins"]))
        end = next(number for number in range(first, len(lines)) if lines[number].startswith(block["ends"]))
        says = "\n".join(lines[first:end]).strip()
        yield f"{block['page']}: {block['begins']}..", says, lambda one=block, quoted=says: block_told(one, quoted), None


def block_told(block, quoted):
    """As many lines as `quoted` has of what the command prints, from the one that begins so; then the command is ended."""
    program, *arguments = shlex.split(block["command"])
    command = subprocess.Popen(
        [os.path.join(BIN, program), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    lines = []
    for line in command.stdout:
        if lines or line.startswith(block["begins"]):
            lines.append(line.rstrip("\n"))
        if len(lines) > quoted.count("\n"):
            break
    command.terminate()
    command.wait()
    return "\n".join(lines)


def judge(name, says, tell):
    """Prints whether the command agrees with the page; whether it does."""
    began = time.monotonic()
    try:
        measured = tell()
    except (OSError, KeyError, TypeError, IndexError, subprocess.SubprocessError) as error:
        measured = f"{type(error).__name__}: {error}"
    agrees = measured == says
    first = says.split("\n")[0]
    print(f"{'agrees ' if agrees else 'DIFFERS'} {time.monotonic() - began:5.1f} s  {name}: {first}", flush=True)
    if not agrees:
        print(f"                 the command says {measured}")
    return agrees


def main():
    parser = argparse.ArgumentParser(usage="benches/claims.py [--check] [--whole | --draw ROWS --seed SEED] [WORD]")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("word", nargs="?", default="")
    given = parser.parse_args()
    table = tomllib.loads((given.root / "benches/claims.toml").read_text(encoding="utf-8"))
    rows = [*rows_of(given.root / "benches/README.md", given.whole)]
    numbers = [*blocks_of(given.root, table.get("block", [])), *numbers_of(given.root, table.get("number", []))]
    wanted = [claim for claim in [*rows, *numbers] if given.word in claim[0]]
    runs = [claim for claim in wanted if claim[2] and not claim[3]]
    if given.draw is not None and not given.whole:
        of_rows = [claim for claim in runs if claim in rows]
        drawn = random.Random(given.seed).sample(of_rows, min(given.draw, len(of_rows)))
        runs = [claim for claim in runs if claim in drawn or claim not in rows]
    count = {"agree": 0, "differ": 0, "NOT RUN": 0, "not drawn": 0, "without a command or a reason": 0}
    for claim in wanted:
        name, says, tell, reason = claim
        if reason:
            print(f"NOT RUN           {name}: {reason}")
            count["NOT RUN"] += 1
        elif not tell:
            print(f"NEITHER           {name}: no command gives it, and no reason says why")
            count["without a command or a reason"] += 1
        elif given.check or claim not in runs:
            print(f"not drawn         {name}")
            count["not drawn"] += 1
        else:
            count["agree" if judge(name, says, tell) else "differ"] += 1
    print(f"{len(wanted)} claims: " + ", ".join(f"{of} {what}" for what, of in count.items()))
    ran = given.check or count["agree"] + count["differ"] > 0
    sys.exit(bool(count["differ"] or count["without a command or a reason"] or not ran))


if __name__ == "__main__":
    main()
