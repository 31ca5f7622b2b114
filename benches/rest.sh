#!/bin/sh
# How much do sleeping and waking cost a server that is mostly idle, or half loaded? Prints for each build: CPU time and
# sleeps of the workers per request, and the latency. Builds take turns, so that disturbances of the host affect all.
# Needs `cargo build --profile dist --workspace`.
#
# BINS="target/dist other/target/dist" ROUNDS=5 benches/rest.sh
set -eu
# shellcheck source=benches/server.sh
. "$(dirname "$0")/server.sh"

# Sums the CPU time, in ns, and the sleeps of all workers.
counters() {
    for thread in /proc/"$server"/task/*; do
        grep -q '^forebay-[0-9]' "$thread/comm" || continue
        echo "$(cut -d' ' -f1 "$thread/schedstat") $(sed -n 's/^voluntary_ctxt_switches:\s*//p' "$thread/status")"
    done | awk '{ cpu += $1; sleeps += $2 } END { printf "%.0f %d\n", cpu, sleeps }'
}

echo "| build | cost | requests/s | CPU us per request | sleeps per request | latency: p50, p90, p99 |"
echo "|---|---|---|---|---|---|"
for _ in $(seq "${ROUNDS:-5}"); do
    for load in fixed:10us/300 fixed:30us/10000; do
        for bin in ${BINS:-target/dist}; do
            start --workers 4 --policy "${POLICY:-steal}" --wait "${WAIT:-adaptive}" --handler spin
            before=$(counters)
            "$bin/loadgen" run --admin "$admin" --cost "${load%/*}" --rate "${load#*/}" --warmup 200ms --duration 2s \
                >"$tmp/run" 2>&1 || [ $? = 3 ]
            echo "$before $(counters) $(sed -n 's/^\([0-9,]*\) sent.*/\1/p' "$tmp/run" | tr -d ,) $(grep '^all ' "$tmp/run" | head -1)" |
                awk -v bin="$bin" -v load="$load" '{ split(load, l, "/")
                    printf "| %s | %s | %s | %.1f | %.2f | %s %s, %s %s, %s %s |\n", bin, l[1], l[2], ($3 - $1) / $5 / 1000, ($4 - $2) / $5, $8, $9, $10, $11, $12, $13 }'
            stop
        done
    done
done
