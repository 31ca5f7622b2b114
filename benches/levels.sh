#!/bin/sh
# Does a server on threads have the figures of virtual time under each policy? Prints the rows of the table of
# benches/emulated.md: the p99.9 slowdown under each policy, and the same requests in virtual time. Then the ratio of `auto`
# to each policy, for each seed. Needs jq, and `cargo build --profile dist --workspace`.
#
# A scene is a workload, the number of workers, a load, a time scale, and the slice that suits levels best. Each scene runs
# with each seed under each policy, on emulated cores that are charged OVERHEADS. With BURN=cpu the cores are real, and the
# load is a share of what isolated can serve. With KEEP=DIRECTORY the results stay there, and a scene that has a result is
# not repeated. So a run can continue after an interrupt, or several runs can share the scenes. Lists are words:
# SCENES="tpcc/14/0.9/500/20us" ROUNDS=2 KEEP=results benches/levels.sh
# BURN=cpu SCENES="tpcc/1/0.7/1/20us" DURATION=20s benches/levels.sh
set -eu

bin=${BIN:-target/dist}
dns=mix:0.95@lognormal:3us:0.25+0.045@lognormal:120us:0.25+0.005@lognormal:1ms:0.25
# The shorter the shortest requests, the larger the scale: otherwise a pause of the host would count as a long wait.
scenes=${SCENES:-extreme-bimodal/14/0.9/2000/5us high-bimodal/14/0.9/500/10us rocksdb/14/0.9/200/15us tpcc/14/0.9/500/20us \
lognormal:10us:3/14/0.9/1000/20us lognormal:10us:10/14/0.9/1000/20us bounded-pareto:1us:100ms:1.1/14/0.9/1000/100us \
$dns/7/0.79/1000/10us exponential:10us/14/0.9/1000/100us fixed:10us/14/0.9/1000/100us}
policies=${POLICIES:-auto,levels,global}
rounds=${ROUNDS:-5}
duration=${DURATION:-50s}
burn=${BURN:-sleep}
case $burn in
cpu) overheads=none ;;
*) overheads=${OVERHEADS:-lab} ;;
esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
keep=${KEEP:-$tmp}
mkdir -p "$keep"

# Runs one scene. Its figures go to NAME.json, and its rows to standard output.
scene() {
    # shellcheck disable=SC2046 # five words
    set -- $(echo "$1" | tr / ' ')
    name="$keep/$burn-$(echo "$1" | tr -c 'a-z0-9.\n' -)-$2-$3-$4"
    [ -s "$name.json" ] || {
        # The exit code is 3 if a run is INVALID; its row says so.
        "$bin/loadgen" compare --quiet --burn "$burn" --simulate --workload "$1" --workers "$2" --load "$3" --time-scale "$4" \
            --slice "$5" --warmup 8s --duration "$duration" --policies "$policies" --rounds "$rounds" --overheads "$overheads" \
            --json "$tmp/json" >"$tmp/text" || [ $? = 3 ]
        mv "$tmp/json" "$name.json"
    }
    jq -r '
        def number: if . >= 1e300 then "inf" elif . >= 100 then round elif . >= 10 then . * 10 | round / 10
            else . * 100 | round / 100 end | tostring;
        def of_all: map(. // infinite) | sort | if length == 0 then "-"
            else "\(.[length / 2 | floor] | number) (\(.[0] | number) to \(.[-1] | number))" end;
        # A run that is too short to know a long-run percentile still gives a ratio for the same requests; a disturbed one does not.
        def is_pair: [.reasons[] | select(test("is not known within") | not)] == [];
        def ratio(one; other): if one == null or other == null then empty else one / other end;
        def ratios(of): [.[] | ratio(.auto | of; .other | of)] | of_all;
        .runs[0].workload as $workload | .runs as $all
        | [$all[].arm] | reduce .[] as $arm ([]; if index([$arm]) then . else . + [$arm] end)
        | .[] as $arm | [$all[] | select(.arm == $arm)] as $runs | [$runs[] | select(is_pair)] as $kept
        | [$kept[] | . as $run | $all[] | select(is_pair and .arm == "auto" and .seed == $run.seed) | {auto: ., other: $run}] as $pairs
        | [$workload, $arm,
            ([$kept[].slowdown.all.p99_9] | of_all),
            ([$kept[].simulated.slowdown.all.p99_9] | of_all),
            ([$kept[] | ratio(.slowdown.all.p99_9; .simulated.slowdown.all.p99_9)] | of_all),
            (if $arm == "auto" then "" else $pairs | ratios(.slowdown.all.p99_9) end),
            (if $arm == "auto" then "" else $pairs | ratios(.latency_us.all.p99_9) end),
            "\($kept | length) of \($runs | length)",
            ([$runs[] | select(.verdict == "VALID") | .percentile] | group_by(.) | map("\(length) \(.[0])") | join(", "))]
        | "| " + join(" | ") + " |"' "$name.json"
}

echo '| workload | policy | p99.9 | virtual time | of it | slowdown of `auto`, paired | its latency, paired | runs | VALID for |'
echo '|---|---|---|---|---|---|---|---|---|'
for scene in $scenes; do scene "$scene"; done
