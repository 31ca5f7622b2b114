#!/bin/sh
# What do clients get from a server that starts into three times the load it can do, and hands over in the middle of it? Prints
# a row for each run: answers in time in each second; the hand-over is in the fifth or sixth. Needs curl, jq, and
# `cargo build --profile dist --workspace`.
#
# One worker on a real core serves requests of 300 us, at most 3,333/s; 10,000/s come, and clients wait for 1 s. The host has to
# leave the worker and the generator a CPU each. More runs: RUNS=5 benches/handover.sh
set -eu

# shellcheck disable=SC2034 # server.sh reads it
drain=5s
. "${0%/*}/server.sh"
flags="--workers 1 --policy ${POLICY:-auto} --handover"

echo "| answers in time, second by second | answered | shed | late | lost |"
echo '|---|---|---|---|---|'
for run in $(seq "${RUNS:-1}"); do
    # shellcheck disable=SC2086 # the flags are words
    listen=
    start $flags "$tmp/$run.sock"
    first=$server
    udp=$(sed -n 's|^listening on udp \([^,]*\),.*|\1|p' "$tmp/server")
    "$bin/loadgen" run --quiet --target "$udp" --cost fixed:300us --rate 10000 --timeout 1s --warmup 0s --duration 12s \
        --percentile 50 --json "$tmp/run.json" >/dev/null 2>&1 &
    generator=$!
    sleep 5
    listen=$udp
    # shellcheck disable=SC2086
    start $flags "$tmp/$run.sock"
    wait "$first" || true
    # The verdict may be INVALID: the exit code is no failure.
    wait "$generator" || true
    stop
    jq -r '[([.by_second[][1]] | map(tostring) | join(" ")), .fates.answered, .fates.shed, .fates.late, .fates.lost]
        | map(tostring) | "| " + join(" | ") + " |"' "$tmp/run.json"
done
