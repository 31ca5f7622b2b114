#!/bin/sh
# What do light requests that are admitted get while more comes than the server can do, and does its memory grow? Prints
# the rows of the table of benches/overload.md. Needs curl, jq, and `cargo build --release --workspace`.
#
# Four emulated workers; 99 % of the requests take 1 ms (50 us x 20), 1 % 100 ms. A fresh server for each row, 12 s at the
# load. The figures are the server's own, of what it answered in the last 10 s. Each list is words:
# POLICIES="steal auto" benches/admitted.sh
set -eu

policies=${POLICIES:-isolated steal pools hybrid ondemand levels auto}
loads=${LOADS:-0.9 2 5}
. "${0%/*}/server.sh"

resident() { curl -s "http://$admin/metrics" | awk '/^process_resident_memory_bytes / { print $2 / 1048576 }'; }

row() {
    start --workers 4 --policy "$1" --burn sleep --time-scale 20
    generator="$bin/loadgen run --quiet --admin $admin --cost bimodal:0.99:50us:5ms --warmup 0s --percentile 50"
    # The verdict is INVALID where emulated cores overslept: the exit code is no failure.
    $generator --load 0.9 --duration 4s >/dev/null || true
    before=$(resident)
    $generator --load "$2" --duration 12s --json "$tmp/run.json" >/dev/null || true
    after=$(resident)
    curl -s "http://$admin/latency" >"$tmp/latency.json"
    stop
    jq -r --arg head "| $1 | $2" --argjson before "$before" --argjson after "$after" --slurpfile run "$tmp/run.json" '
        def tenths: . * 10 | round / 10;
        .windows["10s"].total.short as $short
        | [$head, ($short.p50 / 1000 | tenths), ($short.p99 / 1000 | tenths), ($run[0].fates.answered / $run[0].sent * 100 | round),
           ($before | tenths), (($after / $before - 1) * 100 | tenths)] | map(tostring) | join(" | ") + " |"' "$tmp/latency.json"
}

echo '| policy | load | light, p50, ms | p99, ms | answered, % | resident, MiB | growth, % |'
echo '|---|---|---|---|---|---|---|'
for policy in $policies; do
    for load in $loads; do row "$policy" "$load"; done
done
