#!/bin/sh
# Do honest sources get their answers while others ask for far more than the server can do? Four emulated workers; honest
# requests of 20 us (class 0) and of 2 ms (class 1), a load of HONEST / 2 each, come from NETWORKS networks (/24). Beside
# them one, 100 or 10,000 others send heavy or light requests, all of class 0, at several times the capacity. A row has the
# share of the honest requests that are answered within 3 s, after the first WARMUP. Times are those of the emulated cores,
# SCALE times as long as on real ones. Needs curl, jq, and `cargo build --release --workspace`.
#
# Lists are words: SENDERS="1 100" LOADS="2 20" KINDS=fixed:2ms SERVE="--gate off" benches/sources.sh
# With SERVE="--trusted-networks 127.16.0.0/12" the honest networks are validated. With SERVE="--policy reserve --classify
# header" the server believes the class, and heavy requests of the others lie.
set -eu
# shellcheck source=benches/server.sh
. "${0%/*}/server.sh"

scale=${SCALE:-50}
honest=${HONEST:-0.4}
networks=${NETWORKS:-200}
warmup=${WARMUP:-20}
duration=${DURATION:-30}

# Where so many networks send from.
from() {
    case $1 in
    1) echo 127.9.0.1 ;;
    *) echo 127.64.0.0/10 ;;
    esac
}

# Sends requests of cost $1 at load $2 from $5 flows of $3; the result goes to $4.
send() {
    # It measures the honest ones only, and its verdict knows nothing of the others: the exit code is no failure.
    "$bin/loadgen" run --quiet --admin "http://$admin" --percentile 50 --cost "$1" --load "$2" --timeout 3s \
        --from "$3" --flows "$5" --warmup "$6s" --duration "$7s" --seed "$8" --json "$4" >/dev/null 2>&1 || true
}

row() {
    # shellcheck disable=SC2086 # words
    start --workers 4 --burn sleep --time-scale "$scale" ${SERVE:-}
    send bimodal:0.990099:20us:2ms "$honest" 127.16.0.0/12 "$tmp/honest.json" "$networks" "$warmup" "$duration" 1 & sent=$!
    [ "$3" = 0 ] || send "$1" "$3" "$(from "$2")" "$tmp/flood.json" "$2" 0 $((warmup + duration)) 3
    wait $sent
    gate=$(curl -s "http://$admin/metrics" | sed -n 's/^forebay_gate_dropped_at_least[a-z_]* //p')
    stop
    jq -r --arg head "| $1 | $2 | $3" --arg gate "${gate:--}" '
        def share: if .[1] == 0 then "-" else 1000 * .[0] / .[1] | round / 10 end;
        def of(class): [.latency_answered_us[class].count, .latency_us[class].count] | share;
        def ms(class; p): .latency_answered_us[class][p] / 1000 | round;
        "\($head) | \(of("short")) | \(of("long")) | \(ms("short"; "p99")) | \(ms("long"; "p90")) | \($gate) |"
    ' "$tmp/honest.json"
}

echo '| they ask for | networks | load | honest light, % | honest heavy, % | light p99, ms | heavy p90, ms | turned away by the gate |'
echo '|---|---|---|---|---|---|---|---|'
row none 1 0
for kind in ${KINDS:-fixed:2ms fixed:20us}; do
    for senders in ${SENDERS:-1 100 10000}; do
        for load in ${LOADS:-0.5 2 20}; do row "$kind" "$senders" "$load"; done
    done
done
