#!/bin/sh
# Does what `forebay plan` recommends hold its goal in long runs with other seeds, and does one worker less not? Prints the
# rows of the first table of benches/plan.md. Needs curl, jq, and `cargo build --release --workspace`.
#
# Two rows for each plan: its settings, and the best on one worker less. A goal counts as held where p99.9 is within it with
# each seed and no class has a p99 above it (and above 10). "By its work": fewer workers than the requests keep busy.
# recorded:MIX is a trace of MIX that a server of four emulated cores was sent for 20 s at .8 of its capacity: drawn from in
# any order for each seed, and then once in the order recorded, at the rate planned for. Each list is words, a plan is
# MIX@REQUESTS_PER_SECOND@OVERHEADS, of a trace without a rate: PLANS="tpcc@300000@lab recorded:tpcc@@lab" benches/plan.sh
set -eu

plans=${PLANS:-extreme-bimodal@4200000@lab high-bimodal@100000@stock \
mix:0.9@fixed:5us+0.09@fixed:50us+0.01@fixed:500us@400000@lab tpcc@300000@stock \
lognormal:40us:3@140000@lab bounded-pareto:1us:10ms:1.1@300000@lab exponential:20us@300000@stock fixed:100us@70000@lab \
mix:0.93@lognormal:2us:0.3+0.065@lognormal:20us:0.5+0.005@lognormal:400us:0.5@700000@stock recorded:tpcc@@lab}
seeds=${SEEDS:-2 3 4}
requests=${REQUESTS:-20000000}
# Of the runs on one worker less, which fail by far sooner.
less_requests=${LESS:-2000000}
. "${0%/*}/server.sh"

# A trace of a mix, once for each.
record() {
    trace="$tmp/trace"
    start --workers 4 --policy isolated --burn sleep --time-scale 20 --overheads none
    # The verdict is INVALID where emulated cores overslept: the exit code is no failure.
    "$bin/loadgen" run --quiet --admin "$admin" --workload "$1" --load 0.8 --warmup 0s --duration 20s --seed 1 --dump "$trace" \
        >/dev/null || true
    stop
    # The costs at the time scale, with their classes.
    grep -v '^#' "$trace" | awk 'NR > 1 { print $3, $4 }' >"$tmp/costs"
}

# The trace for a server of so many workers, each request sent when it should have been, and sooner by a tenth, the headroom
# of a plan.
sooner() {
    awk -v workers="$1" '
        BEGIN { unit["ns"] = 1; unit["us"] = 1e3; unit["ms"] = 1e6; unit["s"] = 1e9 }
        NR == 1 { sub(/workers=[0-9]+/, "workers=" workers) }
        NR > 1 && !/^#/ {
            name = $1
            sub(/^[0-9.]+/, "", name)
            at = $1 * unit[name] / 1.1
            if (at > last) last = at
            $1 = $2 = sprintf("%.0fns", last)
            $6 = $6 % workers
        }
        { print }' "$trace" >"$tmp/sooner"
}

# A row: of the plan's recommendation, or of one worker less, by so many requests.
row() {
    jq ".$1" "$tmp/plan.json" >"$tmp/look"
    [ "$(cat "$tmp/look")" != null ] || {
        echo "| | one worker less | | forbidden by its work | | | |"
        return
    }
    limit=$(jq -r '.goal | split("<=")[1]' "$tmp/plan.json")
    workers=$(jq .workers "$tmp/look")
    load=$(jq .load "$tmp/look")
    what=$(jq -r '"`\(.policy)`, \(.workers) workers" + (if .chosen == "" then "" else ", \(.chosen)" end)' "$tmp/look")
    said=$(jq -r '[.verdict, (.figure * 100 | round / 100)] | map(tostring) | join(", ")' "$tmp/look")
    settings=$(jq -r '
        "--policy \(.policy) "
        + (.chosen | capture("(slice|budget) (?<time>[0-9.a-z]+)") // null | if . then "--slice \(.time) " else "" end)
        + (if .sizes then "--pools front=\(.sizes[0])" + (if .sizes[1] > 0 then ",heavy=\(.sizes[1])" else "" end) else "" end)' "$tmp/look")
    rm -f "$tmp"/run-*.json
    for seed in $seeds; do
        # shellcheck disable=SC2086 # settings are words
        "$bin/forebay" simulate --quiet --workload "$workload" --overheads "$overheads" --workers "$workers" \
            --load "$load" $settings --requests "$2" --seed "$seed" --json "$tmp/run-$seed.json" >/dev/null
    done
    ordered=
    if [ -n "$trace" ]; then
        sooner "$workers"
        # shellcheck disable=SC2086
        "$bin/forebay" simulate --quiet --replay "$tmp/sooner" --overheads "$overheads" $settings --json "$tmp/ordered.json" >/dev/null
        ordered=$(jq -r '.results[0].slowdown.all.p99_9 * 100 | round / 100 | "; as recorded \(.)"' "$tmp/ordered.json")
    fi
    jq -rs --arg what "$what" --arg said "$said" --arg load "$load" --argjson limit "$limit" --arg ordered "$ordered" '
        def three: if . == null then "inf" elif . >= 100 then round else . * 100 | round / 100 end;
        def slowest: [.slowdown | to_entries[] | select(.key != "all" and .value.count > 0) | .value.p99] | max;
        map(.results[0]) as $runs
        | ($runs | map(.slowdown.all.p99_9)) as $tails
        | ($runs | map(slowest)) as $classes
        | ($limit | if . > 10 then . else 10 end) as $starved
        | [$what, ($load | tonumber * 1000 | round / 1000), $said, ($tails | map(three) | join(", ")) + $ordered,
           ($classes | map(three) | join(", ")),
           (if all($tails[]; . != null and . <= $limit) and all($classes[]; . != null and . <= $starved) then "holds"
            elif all($tails[]; . != null and . <= $limit) then "fails: a class starves" else "fails" end)]
        | "| \(map(tostring) | join(" | ")) |"' "$tmp"/run-*.json
}

echo '| mix, requests/s, overheads, goal | setting | load | `plan`: verdict, figure | p99.9 by seed | p99 of the slowest class | long runs |'
echo '|---|---|---|---|---|---|---|'
for plan in $plans; do
    overheads=${plan##*@}
    rate=${plan%@*}
    mix=${rate%@*}
    rate=${rate##*@}
    trace=
    workload=$mix
    case $mix in
    recorded:*)
        record "${mix#recorded:}"
        workload="file:$tmp/costs"
        "$bin/forebay" plan --quiet --replay "$trace" --overheads "$overheads" --json "$tmp/plan.json" >/dev/null
        ;;
    *) "$bin/forebay" plan --quiet --workload "$mix" --rate "$rate" --overheads "$overheads" --json "$tmp/plan.json" >/dev/null ;;
    esac
    head=$(jq -r --arg mix "$mix" --arg overheads "$overheads" \
        '"| `\($mix)`, \(.demand.rate | round), `\($overheads)`, \(.goal | split("<=")[1]) "' "$tmp/plan.json")
    recommended=$(row recommendation "$requests")
    echo "$head$recommended"
    less=$(row one_worker_less "$less_requests")
    echo "| $less" | sed 's/^| | |/| |/'
done
