#!/bin/sh
# What does a policy cost a request that takes nothing? Prints one line for each policy and round: CPU time of the server's
# process for each answer, the kernel's part included, while it always has something to do. Needs curl, jq, taskset, two
# CPUs, and `cargo build --release --workspace`.
#
# One worker with the echo handler on CPU 0, twice what it can do from CPU 1, 5 s; a fresh server for each figure, the
# policies in turn. The first 4 s do not count: auto chooses in them.
# POLICIES="steal auto" ROUNDS=5 benches/per_request.sh
set -eu

policies=${POLICIES:-steal auto}
rounds=${ROUNDS:-5}
. "${0%/*}/server.sh"

# The CPU time of the server's process in hundredths of a second, and its answers.
state() { echo "$(awk '{ print $14 + $15 }' "/proc/$server/stat") $(curl -s "http://$admin/latency" | jq .fates.answered)"; }
offer() {
    taskset -c 1 "$bin/loadgen" run --quiet --admin "$admin" --cost fixed:1us --warmup 0s --percentile 50 --rate 400000 \
        --duration "$1" >/dev/null 2>&1 || true
}

for round in $(seq "$rounds"); do
    for policy in $policies; do
        start --workers 1 --policy "$policy" --handler echo --max-wait off
        taskset -cap 0 "$server" >/dev/null
        offer 4s
        before=$(state)
        offer 5s
        after=$(state)
        chosen=$(curl -s "http://$admin/latency" | jq -r '.decision.policy // "-"')
        stop
        echo "$round $policy $chosen $before $after" |
            awk '{ printf "round %d, %s (%s): %.0f ns for each of %d answers\n", $1, $2, $3, ($6 - $4) * 1e7 / ($7 - $5), $7 - $5 }'
    done
done
