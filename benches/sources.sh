#!/bin/sh
# Do honest sources get their answers while others ask for far more than the server can do? Four emulated workers; honest
# requests, .99 of 20 us and .01 of 2 ms, come from 200 networks (/24) at a load of HONEST. Beside them one, 100 or 10,000
# networks send heavy or light requests at several times the capacity. A row has the share of the honest requests
# answered within a second (heavy ones: and their own time), after the first 4 s. Needs curl, jq, and
# `cargo build --release --workspace`.
#
# Lists are words: SENDERS="1 100" LOADS="2 20" KINDS=fixed:2ms SERVE="--gate off" benches/sources.sh
set -eu
# shellcheck source=benches/server.sh
. "${0%/*}/server.sh"

scale=${SCALE:-100}
mix=bimodal:0.99:20us:2ms

# Where so many networks send from.
from() {
    case $1 in
    1) echo 127.9.0.1 ;;
    *) echo 127.64.0.0/10 ;;
    esac
}

row() {
    # shellcheck disable=SC2086 # words
    start --workers 4 --burn sleep --time-scale "$scale" ${SERVE:-}
    generator="$bin/loadgen run --quiet --admin http://$admin --timeout 3s --percentile 50"
    # They measure nothing: the exit code is no failure.
    [ "$3" = 0 ] || $generator --cost "$1" --load "$3" --flows "$2" --from "$(from "$2")" --warmup 0s --duration 20s \
        --seed 2 >/dev/null 2>&1 &
    flood=$!
    $generator --workload $mix --load "${HONEST:-0.4}" --flows 200 --from 127.1.0.0/16 --warmup 4s --duration 14s \
        --json "$tmp/run.json" >/dev/null 2>&1 || true
    wait $flood || true
    gate=$(curl -s "http://$admin/metrics" | sed -n 's/^forebay_gate_dropped_at_least[a-z_]* //p')
    stop
    jq -r --arg head "| $1 | $2 | $3" --arg gate "${gate:--}" '
        def share(class): 100 * .latency_answered_us[class].count / .latency_us[class].count * 10 | round / 10;
        "\($head) | \(share("short")) | \(share("long")) | \(.latency_answered_us.short.p99 / 1000 | round) | \(.latency_answered_us.long.p90 / 1000 | round) | \($gate) |"
    ' "$tmp/run.json"
}

echo '| they ask for | networks | load | honest light, % | honest heavy, % | light p99, ms | heavy p90, ms | turned away by the gate |'
echo '|---|---|---|---|---|---|---|---|'
row none 1 0
for kind in ${KINDS:-fixed:2ms fixed:20us}; do
    for senders in ${SENDERS:-1 100 10000}; do
        for load in ${LOADS:-0.5 2 20}; do row "$kind" "$senders" "$load"; done
    done
done
