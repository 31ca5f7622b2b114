#!/bin/sh
# Is a server in virtual time as slow as the real one with the very same requests? Prints the rows of the table of
# benches/replay.md, and how many of its figures are near, beside what constants would reach. Needs jq, and
# `cargo build --release --workspace`.
#
# A scene is a workload, a time scale, a slice, a warm-up and policies; each is run at each load in each round, on 14
# emulated cores that are charged OVERHEADS, stock by default. With KEEP=DIRECTORY the results stay there, and
# scenes whose results are there are not repeated: so the table can go on after an interrupt. Lists are words:
# LOADS="0.7" SCENES="high-bimodal/500/2us/3s/isolated,steal" KEEP=results benches/replay.sh
set -eu

bin=${BIN:-target/release}
# Policies whose slowdowns are hundreds take a small scale and many requests. auto needs 500 requests to decide by.
scenes=${SCENES:-extreme-bimodal/1000/5us/3s/isolated,global,steal \
extreme-bimodal/2000/5us/5s/pools,hybrid,ondemand,levels \
extreme-bimodal/2000/5us/15s/auto \
high-bimodal/500/2us/3s/isolated,global,steal \
high-bimodal/2000/2us/5s/pools,hybrid,ondemand,levels \
high-bimodal/2000/2us/15s/auto}
loads=${LOADS:-0.5 0.7}
rounds=${ROUNDS:-3}
duration=${DURATION:-20s}
overheads=${OVERHEADS:-stock}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
keep=${KEEP:-$tmp}
mkdir -p "$keep"

# One scene at one load: its rows go to NAME.rows, its figures to NAME.json.
scene() {
    load=$1
    # shellcheck disable=SC2046 # five words
    set -- $(echo "$2" | tr / ' ')
    name="$keep/$1-$2-$5-$load"
    [ -s "$name.rows" ] || {
        # The exit code is 3 where a run is INVALID, which its row says.
        "$bin/loadgen" compare --quiet --burn sleep --workers 14 --simulate --workload "$1" --time-scale "$2" --slice "$3" \
            --warmup "$4" --duration "$duration" --policies "$5" --load "$load" --rounds "$rounds" --overheads "$overheads" \
            --json "$name.json" >"$tmp/text" || [ $? = 3 ]
        grep -E "^\| $1 \| [0-9.]+ \| " "$tmp/text" >"$tmp/rows"
        mv "$tmp/rows" "$name.rows"
    }
    cat "$name.rows"
    cp "$name.json" "$tmp/scene-$(printf %03d "$count").json"
    count=$((count + 1))
}

count=0
echo '| workload | load | policy | p50 real | simulated | near | p99 real | simulated | near | p99.9 real | simulated | near | VALID |'
echo '|---|---|---|---|---|---|---|---|---|---|---|---|---|'
for scene in $scenes; do
    for load in $loads; do scene "$load" "$scene"; done
done

# For each percentile the constant that is near to most figures: the same slowdown in every cell, or the same above that of
# an idle server.
jq -rs '
    [.[].validation[].percentiles[] | select(.is_near != null)] as $judged
    | def best(shift): [group_by(.percentile)[] | . as $cells
          | [$cells[] | select(.near_from != null) | .near_from - shift] | map(. as $constant
              | [$cells[] | select(.near_from != null and .near_from - shift <= $constant and $constant <= .near_to - shift)]
              | length) | max // 0] | add // 0;
    "",
    "\($judged | map(select(.is_near)) | length) of \($judged | length) judged figures are near;"
    + " three constants reach \($judged | best(0)), or \($judged | best(.idle)) as so much above an idle server."' \
    "$tmp"/scene-*.json
