#!/bin/sh
# What becomes of the ancestors' two mixes on the server: over sockets, and in virtual time with the same requests? Prints the
# tables of benches/ancestors.md. Needs jq and `cargo build --release --workspace`; as root its processes get real-time
# priority 1, so that neighbours do not disturb them.
#
# `micropools` runs on three emulated cores, `packet-chain` on one real one, for the generator needs the other CPU. With
# KEEP=DIRECTORY the results stay there, and what is there is not repeated. Lists are words: MIXES=micropools benches/ancestors.sh
set -eu

bin=${BIN:-target/release}
mixes=${MIXES:-micropools packet-chain}
rounds=${ROUNDS:-3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
keep=${KEEP:-$tmp}
mkdir -p "$keep"
priority=
[ "$(id -u)" != 0 ] || priority='chrt -f 1'

# The mix at one load, with further arguments; its result goes to $result.
compare() {
    mix=$1 load=$2
    shift 2
    result=$keep/$mix-$load.json
    [ -s "$result" ] || {
        # The exit code is 3 where a run is INVALID, which its row says.
        $priority "$bin/loadgen" compare --quiet --simulate --workload "$mix" --load "$load" "$@" --json "$tmp/run.json" \
            >"$keep/$mix-$load.txt" || [ $? = 3 ]
        mv "$tmp/run.json" "$result"
    }
}

# Medians over the VALID runs, over all where none is, with the least and the largest; behind the slash the median of virtual
# time. ?: in one of these runs at least, too few samples to bound it with 95 % confidence.
definitions='
    def digits: if . > 1e300 then "inf" elif . >= 100 then round elif . >= 10 then . * 10 | round / 10
        else . * 100 | round / 100 end;
    def sorted: map(if . == null then infinite else . end) | sort;
    def median: sorted | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    def range: sorted | if length < 2 then "" else " (\(first | digits)-\(last | digits))" end;
    def rank: {none: 0, p50: 1, p90: 2, p99: 3, p99_9: 4, p99_95: 5, p99_99: 6, max: 0}[.];
    def of_blocks($at; $unit): map(.[$at] | if . then . * $unit else . end) as $figures
        | "\($figures | median | digits)\($figures | range)"
            + (if any(.[]; (.supported // "max" | rank) < ($at | rank) and has("supported")) then "?" else "" end);
    def cell($class; $at; $unit): "\(map(.slowdown[$class]) | of_blocks($at; $unit)) / \(
        map(.simulated.slowdown[$class][$at] * $unit) | median | digits)";
    def arms: reduce .runs[].arm as $arm ([]; if index($arm) then . else . + [$arm] end);
    def rows(cells): . as $all | arms[] as $arm
        | [$all.runs[] | select(.arm == $arm)] as $of | [$of[] | select(.verdict == "VALID")] as $valid
        | (if $valid == [] then $of else $valid end)
        | "| \($arm) | \([cells] | join(" | ")) | \($valid | length) of \($of | length) |";'

for_micropools='
    "\n`micropools` at \($load): slowdown on the server / in virtual time\n",
    "| policy | light p50 | p99 | p99.9 | p99.95 | heavy p50 | largest | VALID |", "|---|---|---|---|---|---|---|---|",
    rows(cell("short"; "p50", "p99", "p99_9", "p99_95"; 1), cell("long"; "p50", "max"; 1))'

# Slowdowns times costs, in us and ms.
for_packet_chain='
    "\n`packet-chain` at \($load): latency on the server / in virtual time; of light requests in us, of heavy ones in ms\n",
    "| policy | light p50 | p99 | p99.9 | as the server saw it: p50 | p99 | p99.9 | heavy p50 | p99 | VALID |",
    "|---|---|---|---|---|---|---|---|---|---|",
    rows(cell("short"; "p50", "p99", "p99_9"; 2),
        (map(.server.since_start.total.short) | of_blocks("p50", "p99", "p99_9"; 1)),
        cell("long"; "p50", "p99"; 40))'

for mix in $mixes; do
    case $mix in
    micropools)
        for load in ${LOADS:-0.5 0.7}; do
            compare "$mix" "$load" --burn sleep --overheads stock --time-scale 200 --pools front=2,heavy=1 --rounds "$rounds" \
                --policies isolated,steal,pools,hybrid,ondemand,levels,auto --warmup 5s --duration 27s
            jq -r --arg load "$load" "$definitions $for_micropools" "$result"
        done
        ;;
    packet-chain)
        for load in ${LOADS:-0.4}; do
            compare "$mix" "$load" --burn cpu --time-scale 1 --workers 1 --saturate 0s --rounds 1 \
                --policies isolated,steal,levels,auto --warmup 5s --duration 50s
            jq -r --arg load "$load" "$definitions $for_packet_chain" "$result"
        done
        ;;
    esac
done
