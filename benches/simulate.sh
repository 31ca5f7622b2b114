#!/bin/sh
# Up to which load does each policy hold p99.9 of the slowdown at or below 10, in virtual time? Prints the rows of the
# table of benches/simulate.md. Needs jq and `cargo build --release -p forebay`.
#
# A row is a policy under a workload, a column a number of workers, a cell a search for each seed: the median, least
# to highest where they are more than .01 apart, in parentheses what is published, and a mark of why the next load is not
# held by the median seed: g the goal is missed, s the long requests starve, u the sizes or latencies are unstable, and ?
# where the searches of some seed end undecided. Bold: more than .03 from what is published. With KEEP=DIRECTORY the
# results stay there, and searches whose results are there are not repeated. Each list is words:
# WORKERS="3 14" POLICIES="steal hybrid" benches/simulate.sh
set -eu

bin=${BIN:-target/release}
workloads=${WORKLOADS:-extreme-bimodal high-bimodal micropools}
policies=${POLICIES:-isolated steal global central pools reserve hybrid ondemand srpt}
workers=${WORKERS:-3 14 64}
seeds=${SEEDS:-1 2 3}
# The most requests of a simulation, which takes what it needs to tell.
requests=${REQUESTS:-30000000}
# The most CPU time of a search, in seconds: one that takes longer ends without a result, which is no load held.
cpu=${CPU:-unlimited}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
keep=${KEEP:-$tmp}
mkdir -p "$keep"

# What is published for a policy under a workload: shares of capacity with 3, 14 and 64 workers.
published() {
    case "$1 $2" in
    isolated*) echo '0 0 0' ;;
    'steal extreme'*) echo '.07 .39 .64' ;;
    'steal high'*) echo '.09 .44 .73' ;;
    'steal micro'*) echo '.30 .64 .81' ;;
    'global extreme'*) echo '.07 .40 .65' ;;
    'global high'*) echo '.09 .44 .73' ;;
    'global micro'*) echo '.32 .66 .86' ;;
    'central extreme'*) echo '.11 .46 .69' ;;
    'central high'*) echo '.31 .66 .79' ;;
    'central micro'*) echo '.48 .81 .94' ;;
    'pools extreme'* | 'reserve extreme'*) echo '.76 .93 .99' ;;
    'pools high'* | 'reserve high'*) echo '.56 .91 .98' ;;
    'pools micro'* | 'reserve micro'*) echo '.65 .96 .99' ;;
    'hybrid extreme'*) echo '.92 .97 .99' ;;
    'hybrid high'*) echo '.71 .95 .98' ;;
    'hybrid micro'*) echo '.85 .99 .99' ;;
    'ondemand extreme'*) echo '.86 .96 .99' ;;
    'ondemand high'*) echo '.86 .96 .98' ;;
    'ondemand micro'*) echo '.97 .99 .99' ;;
    'srpt extreme'*) echo '.96 .99 .99' ;;
    'srpt high'*) echo '.90 .98 .99' ;;
    'srpt micro'*) echo '.99 .99 .99' ;;
    *) echo '- - -' ;;
    esac
}

# The published share for a number of workers: nothing where there is none.
published_for() {
    # shellcheck disable=SC2046 # three words
    set -- "$3" $(published "$1" "$2")
    case $1 in
    3) echo "$2" ;;
    14) echo "$3" ;;
    64) echo "$4" ;;
    esac | tr -d -
}

# One search: workload, workers, policy, seed.
search() {
    # Twice the smallest class's cost.
    slice=2us
    [ "$1" != extreme-bimodal ] || slice=1us
    result="$keep/$1-$2-$3-$4.json"
    [ -s "$result" ] || {
        rm -f "$tmp/json"
        # 152 and 137 are the signals of the limit, of which the shell would tell on standard error.
        (
            ulimit -t "$cpu"
            "$bin/forebay" simulate --quiet --overheads lab --workload "$1" --workers "$2" --policy "$3" --seed "$4" \
                --slice "$slice" --thief-threshold 1us --pools best --max-load 'p99.9-slowdown<=10' --requests "$requests" \
                --json "$tmp/json" >/dev/null || exit $?
        ) 2>"$tmp/errors" || case $? in
        137 | 152) echo '{"results": []}' >"$tmp/json" ;;
        *) cat "$tmp/errors" >&2 && exit 1 ;;
        esac
        mv "$tmp/json" "$result"
    }
    cat "$result"
}

cell() {
    for seed in $seeds; do search "$1" "$2" "$3" "$seed"; done |
        jq -rs --arg published "$(published_for "$3" "$1" "$2")" '
            def share: (. * 100 | round) as $hundredths | if $hundredths == 0 then "0" else
                "." + (if $hundredths < 10 then "0" else "" end) + ($hundredths | tostring) end;
            def mark: .beyond.cause // "" | if test("starves") then " s" elif test("unstable") then " u"
                elif test("missed") then " g" else "" end;
            length as $seeds | map(.results[0] // empty) | sort_by(.max_load) as $found
            | if $found == [] then "?" else $found[length / 2 | floor] as $median
            | ($median.max_load | share) as $shown
            | ($found[0].max_load | share) as $least | ($found[-1].max_load | share) as $most
            | ($published | if . == "" then null else tonumber end) as $theirs
            | (if $theirs != null and (($median.max_load - $theirs) * 100 | round | fabs) > 3 then "**\($shown)**" else $shown end)
              + (if ($found[-1].max_load - $found[0].max_load) * 100 | round > 1 then " \($least) to \($most)" else "" end)
              + ($median | mark) + (if length < $seeds or any(.[]; .beyond.verdict == "undecided") then " ?" else "" end)
              end + (if $published != "" then " (\($published))" else "" end)'
}

head='| workload | policy |'
rule='|---|---|'
for count in $workers; do
    head="$head $count |"
    rule="$rule---|"
done
printf '%s\n%s\n' "$head" "$rule"
for workload in $workloads; do
    for policy in $policies; do
        printf '| %s | `%s` |' "$workload" "$policy"
        for count in $workers; do printf ' %s |' "$(cell "$workload" "$count" "$policy")"; done
        echo
    done
done
