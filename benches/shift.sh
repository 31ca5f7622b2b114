#!/bin/sh
# How soon does `auto` adapt on a real core, after a start and after a shift of the mix? One real worker runs beside the
# generator, and the script asks the endpoint every tenth of a second. Prints a row for each run; benches/levels.md sums
# them up. Needs curl, jq, two idle CPUs, and `cargo build --profile dist --workspace`.
#
# Lists are words: SHIFTS="tpcc/fixed:10us" ROUNDS=1 benches/shift.sh
set -eu
# shellcheck source=benches/server.sh
. "$(dirname "$0")/server.sh"

shifts=${SHIFTS:-lognormal:10us:3/exponential:10us high-bimodal/fixed:10us tpcc/high-bimodal fixed:10us/lognormal:10us:10}
rounds=${ROUNDS:-3}
# The load before and after the shift, by the time in handlers alone.
load=${LOAD:-0.5}
# Seconds before the shift, and after it.
half=10

# Prints until the server ends: the time since the first request, and the policy in force.
watch() {
    began=
    while body=$(curl -s "http://$admin/latency"); do
        now=$(date +%s.%N)
        [ -n "$began" ] || [ "$(echo "$body" | jq .fates.received)" = 0 ] || began=$now
        [ -z "$began" ] || echo "$began $now $(echo "$body" | jq -r '.decision | [.policy, .budget_us] | map(tostring) | join(" ")')"
        sleep 0.1
    done
}

# One run. Prints the mix, and for each change of policy the second at which it came into force.
run() {
    start --workers 1 --policy auto
    watch >"$tmp/watched" &
    watching=$!
    # The exit code is 3 because the run is INVALID: with two mixes in one run, no percentile is known.
    "$bin/loadgen" run --quiet --admin "$admin" --workload "$1" --then "$2" --load "$load" --warmup 0s --duration $((2 * half))s \
        >"$tmp/run" || [ $? = 3 ]
    stop
    wait $watching || true
    # The first policy is no change: it is in force when the first request comes.
    awk -v half=$half '
        NR > 1 && $3 " " $4 != last {
            seconds = $2 - $1
            if (seconds < half) text = text sprintf(", %.1f s: %s from %s", seconds, $3, $4)
            else text = text sprintf(", **%.1f s after the shift: %s from %s**", seconds - half, $3, $4)
        }
        { last = $3 " " $4 }
        END { print substr(text, 3) }' "$tmp/watched"
}

echo '| from | to | changes |'
echo '|---|---|---|'
for shift in $shifts; do
    for _ in $(seq "$rounds"); do
        echo "| ${shift%/*} | ${shift#*/} | $(run "${shift%/*}" "${shift#*/}") |"
    done
done
