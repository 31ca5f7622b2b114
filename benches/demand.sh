#!/bin/sh
# Does `forebay plan --from` know what requests cost on a real core? Prints the rows of a table of benches/plan.md. Needs
# curl, jq, taskset, chrt and `cargo build --release --workspace`, and two CPUs.
#
# One worker burns CPU on the first CPU, the generator has the second. The worker's threads are of real-time priority 1
# where that is allowed, so that neighbours do not lengthen its times in handlers; REALTIME=0 leaves that out. `wait` is how long
# its threads waited for their CPU all the same. Lists are words: MIXES="fixed:500us" benches/demand.sh
set -eu

mixes=${MIXES:-fixed:500us bimodal:0.989:100us:5ms lognormal:300us:2 exponential:400us bimodal:0.5:100us:1ms bimodal:0.9:50us:2ms}
duration=${DURATION:-12s}
realtime=${REALTIME:-1}
. "${0%/*}/server.sh"

row() {
    start --workers 1 --policy steal --burn cpu --wait park
    taskset -a -c -p 0 "$server" >/dev/null
    [ "$realtime" = 0 ] || chrt -a -f -p 1 "$server"
    # The verdict is about latencies, which are not looked at: the exit code is no failure.
    taskset -c 1 "$bin/loadgen" run --quiet --admin "$admin" --workload "$1" --load 0.5 --warmup 0s --duration "$duration" \
        --percentile 50 --json "$tmp/run.json" >/dev/null || true
    curl -s "http://$admin/latency" >"$tmp/latency.json"
    # Of a plan the demand alone is read: as few requests as it takes.
    plan="$bin/forebay plan --quiet --overheads none --policy steal --workers 4 --slo p50-slowdown<=1000 --requests 1000"
    $plan --from "http://$admin/latency" --json "$tmp/plan.json" >/dev/null
    stop
    $plan --workload "$1" --load 0.1 --json "$tmp/true.json" >/dev/null
    mean=$(jq .demand.mean_us "$tmp/true.json")
    jq -r --arg mix "$1" --argjson mean "$mean" --slurpfile run "$tmp/run.json" --slurpfile latency "$tmp/latency.json" '
        def tenths: . * 10 | round / 10;
        $latency[0] as $said
        | [$mix, ($mean | tenths), (.demand.mean_us | tenths), "\(((.demand.mean_us / $mean) - 1) * 100 | tenths) %",
           ($said.demand.asked), "\($run[0].fates.answered / $run[0].sent * 100 | tenths) %",
           "\($said.run_queue_wait_us / $said.busy_us * 100 | tenths) %"]
        | "| `\(.[0])` | \(.[1:] | map(tostring) | join(" | ")) |"' "$tmp/plan.json"
}

echo '| mix | true mean, us | said, us | off by | requests | answered | wait, of the time in handlers |'
echo '|---|---|---|---|---|---|---|'
for mix in $mixes; do row "$mix"; done
