#!/bin/sh
# Do honest sources get answers while others ask for far more than the server can do? Four emulated workers serve honest
# requests of 20 us (class 0) and of 2 ms (class 1). Each kind has a load of HONEST / 2, and comes from NETWORKS networks
# (/24). Beside them one, 100 or 10,000 others send heavy or light requests, all of class 0, at several times the capacity.
# A row has the share of honest requests that are answered within a second (heavy ones: 3 s), after WARMUP seconds. Times
# are as on the emulated cores, SCALE times real ones. Needs curl, jq, and `cargo build --profile dist --workspace`.
#
# Lists are words: SENDERS="1 100" LOADS="2 20" KINDS=fixed:2ms SERVE="--gate off" benches/sources.sh
# With SERVE="--trusted-networks 127.16.0.0/12" the honest networks are validated. With SERVE="--classify header" the
# server believes the class that a request states, so the heavy requests of the others lie.
set -eu
# shellcheck source=benches/server.sh
. "${0%/*}/server.sh"

scale=${SCALE:-50}
honest=${HONEST:-0.4}
networks=${NETWORKS:-200}
warmup=${WARMUP:-20}
duration=${DURATION:-30}

# The networks from which this many sources send.
from() {
    case $1 in
    1) echo 127.9.0.1 ;;
    *) echo 127.64.0.0/10 ;;
    esac
}

# Sends requests of cost $1 at load $2 from $6 flows of $3 for the whole time; the result goes to $4.
send() {
    # Each generator knows only its own requests, so its verdict and exit code are ignored.
    "$bin/loadgen" run --quiet --admin "http://$admin" --percentile 50 --cost "$1" --load "$2" --timeout "$5" \
        --from "$3" --flows "$6" --warmup "$7s" --duration "$8s" --seed "$9" --json "$4" >/dev/null 2>&1 || true
}

row() {
    # shellcheck disable=SC2086 # words
    start --workers 4 --burn sleep --time-scale "$scale" ${SERVE:-}
    half=$(awk "BEGIN { print $honest / 2 }")
    send fixed:20us "$half" 127.16.0.0/12 "$tmp/light.json" 1s "$networks" "$warmup" "$duration" 1 & light=$!
    # The tiny share of light requests makes heavy ones class 1.
    send bimodal:0.000001:20us:2ms "$half" 127.16.0.0/12 "$tmp/heavy.json" 3s "$networks" "$warmup" "$duration" 2 & heavy=$!
    [ "$3" = 0 ] || send "$1" "$3" "$(from "$2")" "$tmp/flood.json" 3s "$2" 0 $((warmup + duration)) 3
    wait $light $heavy
    gate=$(curl -s "http://$admin/metrics" | sed -n 's/^forebay_gate_dropped_at_least[a-z_]* //p')
    stop
    # A generator ends early if it gets no answer for seconds.
    jq -r -s --arg head "| $1 | $2 | $3" --arg gate "${gate:--}" '
        def share: if .sent == 0 then "none" else 1000 * .fates.answered / .sent | round / 10 end;
        "\($head) | \(.[0] | share) | \(.[1] | share) | \(.[0].latency_answered_us.all.p99 / 1000 | round) | \(.[1].latency_answered_us.all.p90 / 1000 | round) | \($gate) |"
    ' "$tmp/light.json" "$tmp/heavy.json"
}

echo '| they ask for | networks | load | honest light, % | honest heavy, % | light p99, ms | heavy p90, ms | turned away by the gate |'
echo '|---|---|---|---|---|---|---|---|'
row none 1 0
for kind in ${KINDS:-fixed:2ms fixed:20us}; do
    for senders in ${SENDERS:-1 100 10000}; do
        for load in ${LOADS:-0.5 2 20}; do row "$kind" "$senders" "$load"; done
    done
done
