#!/bin/sh
# One source sends light and heavy requests, more than the cores can serve. How many of each are answered in time? Prints
# the rows of benches/overload.md. Needs curl, jq, and `cargo build --profile dist --workspace`.
#
# The work that comes first is all of each light request and the first slice of each heavy one, with the time beside them.
# At LOAD times the capacity it needs D of the capacity. Of the light requests 1 / D fit, and heavy ones get the remaining
# capacity. An emulated core takes 2.68 us beside each request. For a real core this time is measured: `isolated` answers a
# flood of requests of 20 us.
#
# A mix has five parts: the share of light requests, the costs of a light and of a heavy one and the first slice, in us, and
# the time scale. On a real core: WORKERS="--workers 1" MIXES=0.99:20:2000:200:1 LOADS="2 5" benches/kinds.sh
set -eu

mixes=${MIXES:-0.99:20:2000:200:20 0.995:.5:500:5:200}
loads=${LOADS:-2 5 20}
workers=${WORKERS:---workers 4 --burn sleep}
. "${0%/*}/server.sh"

beside() {
    case $workers in *sleep*) echo 2.68 && return ;; esac
    # shellcheck disable=SC2086 # the flags are words
    start $workers --policy isolated
    "$bin/loadgen" run --quiet --admin "$admin" --cost fixed:20us --rate 40000 --timeout 1s --flows 256 --warmup 3s \
        --duration 10s --json "$tmp/flood.json" >/dev/null 2>&1 || true
    stop
    jq '10e6 / .fates.answered - 20 | . * 100 | round / 100' "$tmp/flood.json"
}

row() {
    # shellcheck disable=SC2086 # the flags are words
    start $workers --time-scale "$5"
    generator="$bin/loadgen run --quiet --admin $admin --cost bimodal:$1:$2us:$3us --timeout 1s --percentile 50 --flows 256"
    # The verdict may be INVALID, so the exit code is ignored.
    $generator --load "$6" --warmup 4s --duration 10s --json "$tmp/run.json" >/dev/null 2>&1 || true
    $generator --load .5 --warmup 0s --duration 3s --json "$tmp/after.json" >/dev/null 2>&1 || true
    stop
    jq -r --arg head "| $1 of $2 us, $3 us | $6" --argjson light "$1" --argjson short "$2" --argjson long "$3" \
        --argjson slice "$4" --argjson load "$6" --argjson beside "$beside" --slurpfile after "$tmp/after.json" '
        def thousandths: . * 1000 | round / 1000;
        ($light * $short + (1 - $light) * $long + 2.68) as $mean
        | ($load * ($light * $short + (1 - $light) * $slice + $beside) / $mean) as $demand
        | ([1, (1 - $demand) * $mean / ($load * (1 - $light) * ($long - $slice)) | [0, .] | max] | min) as $heavy
        | ([1, 1 / $demand] | min) as $fit
        | (.latency_answered_us.short.count / (.sent * $light)) as $answered
        | [$head, $demand, $fit, $answered, $answered / $fit, $heavy,
           (.latency_answered_us.long.count // 0) / (.sent * (1 - $light)), ($after[0] | .fates.answered / .sent)]
        | map(if type == "number" then thousandths else . end | tostring) | join(" | ") + " |"' "$tmp/run.json"
}

beside=$(beside)
echo "beside each request: $beside us"
echo '| mix | load | D | light that fit | light in time | over those that fit | heavy that fit | heavy in time | in time at .5 after it |'
echo '|---|---|---|---|---|---|---|---|---|'
for mix in $mixes; do
    for load in $loads; do
        # shellcheck disable=SC2046 # the numbers are words
        row $(echo "$mix" | tr : ' ') "$load"
    done
done
