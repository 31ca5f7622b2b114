#!/bin/sh
# The process stands still for a while, as in a live migration or a cgroup freezer. Are the requests of that time answered?
# Prints a row for each policy, load and pause. Needs curl, jq, and `cargo build --profile dist --workspace`.
#
# One worker serves requests of 1 ms, and clients wait for 6 s. A list is words: PAUSES=1 LOADS=.2 benches/pauses.sh
# Real cores, if the host has a free CPU: WORKERS="--workers 1" benches/pauses.sh
set -eu

policies=${POLICIES:-isolated steal levels auto}
loads=${LOADS:-.05 .2 .5 .8}
pauses=${PAUSES:-.06 .5 1 3}
workers=${WORKERS:---workers 1 --burn sleep}
. "${0%/*}/server.sh"

row() {
    # shellcheck disable=SC2086 # the flags are words
    start $workers --policy "$1"
    "$bin/loadgen" run --quiet --admin "$admin" --cost fixed:1ms --rate "$(awk "BEGIN { print $2 * 1000 }")" --timeout 6s \
        --warmup 0s --duration "${DURATION:-12s}" --percentile 50 --json "$tmp/run.json" >/dev/null 2>&1 &
    generator=$!
    sleep 4
    kill -STOP "$server"
    sleep "$3"
    kill -CONT "$server"
    # The verdict may be INVALID, so the exit code is ignored.
    wait "$generator" || true
    stop
    jq -r --arg head "| $1 | $2 | $3" '[$head, .sent, .fates.answered, .fates.shed, .fates.kernel_dropped] | map(tostring)
        | join(" | ") + " |"' "$tmp/run.json"
}

echo '| policy | load | pause, s | sent | answered | shed | dropped by the kernel |'
echo '|---|---|---|---|---|---|---|'
for policy in $policies; do
    for load in $loads; do
        for pause in $pauses; do row "$policy" "$load" "$pause"; done
    done
done
