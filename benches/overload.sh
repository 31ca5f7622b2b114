#!/bin/sh
# Clients with a timeout send more than the server can serve. How many get an answer during the overload, and after it?
# Prints the rows of the table of benches/overload.md. Needs curl, jq, and `cargo build --profile dist --workspace`.
#
# Four emulated workers serve requests of 10 ms, and each takes 50 us beside this: at most 398/s. The load is .5 for 3 s, then
# each load of the table for 8 s, then THEN (.5) for 8 s; an attempt has a timeout of 1 s. A list is words:
# POLICIES="steal auto" benches/overload.sh
# Requests of 10 us, of which the time beside them is a fifth: SCALE=1000 COST=10us CAPACITY=315 benches/overload.sh
set -eu

policies=${POLICIES:-isolated steal pools levels auto}
loads=${LOADS:-1.2 2 5}
retries=${RETRIES:-0 2}
waits=${WAITS:-auto off}
# The load after the overload.
afterwards=${THEN:-0.5}
# Further flags of the server and of loadgen.
serve=${SERVE:-}
run=${RUN:-}
capacity=${CAPACITY:-398}
cost=${COST:-500us}
scale=${SCALE:-20}
. "${0%/*}/server.sh"

# 8 s, divided by the time scale.
half=$(awk "BEGIN { print 8000 / $scale }")ms

rate() { awk "BEGIN { print ($1) * $capacity }"; }

row() {
    # shellcheck disable=SC2086 # the lists are words
    start --workers 4 --policy "$1" --burn sleep --time-scale "$scale" --max-wait "$4" $serve
    generator="$bin/loadgen run --quiet --admin $admin --cost fixed:$cost --warmup 0s --percentile 50"
    # The verdict is INVALID if emulated cores overslept, so the exit code is ignored.
    $generator --rate "$(rate 0.5)" --duration 3s >/dev/null || true
    # shellcheck disable=SC2086
    $generator --rate "$(rate "($2 + $afterwards) / 2")" --arrivals "steps:$2@$half,$afterwards@$half" --duration 16s \
        --timeout 1s --retries "$3" $run --json "$tmp/run.json" >/dev/null || true
    useful=$(curl -s "http://$admin/latency" | jq '1 - .wasted_us / .busy_us')
    stop
    # Seconds 2 to 6 of the overload. Requests of a later second may still be answered by a retry after its end.
    jq -r --arg head "| $1 | $2 | $3 | $4" --argjson capacity $capacity --argjson useful "$useful" '
        def hundredths: . * 100 | round / 100;
        [.by_second[1:6][] | .[1] / $capacity] as $goodput
        | .by_second[8:16] as $after
        | ($after | map(.[1] / .[0] >= 0.98) | rindex(false) // -1) as $bad
        | [$head, "\($goodput | add / length | hundredths) (\($goodput | min | hundredths)..\($goodput | max | hundredths))",
           ($after[0] | .[1] / .[0] | hundredths),
           (if $bad == 7 then "not within 8 s" else "second \($bad + 2)" end),
           (.attempts.sent / .sent | hundredths), ($useful | hundredths)] | map(tostring) | join(" | ") + " |"' "$tmp/run.json"
}

echo '| policy | load | retries | `--max-wait` | in time, over capacity | first second at .5 | .98 from | attempts | useful CPU |'
echo '|---|---|---|---|---|---|---|---|---|'
for policy in $policies; do
    for load in $loads; do
        for retry in $retries; do
            for wait in $waits; do row "$policy" "$load" "$retry" "$wait"; done
        done
    done
done
