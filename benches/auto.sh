#!/bin/sh
# Is the default policy near the best one for every mix, load and number of workers, in virtual time with every step
# charged? Prints a row a cell: the p99.9 of the slowdown under `auto`, the least of the fixed policies', and their ratio;
# then how many cells have a ratio of at most 1.1 and 1.25. With several seeds a cell's ratio is their median. Needs
# `cargo build --release`.
#
# Lists are words: MIXES="tpcc rocksdb" LOADS=.7,.9 WORKERS="2 14" SEEDS="1 2 3" REQUESTS=2000000 benches/auto.sh
# Flags of `simulate` besides: FLAGS="--groups 4" benches/auto.sh
set -eu

bin=${BIN:-target/release}
mixes=${MIXES:-extreme-bimodal high-bimodal tpcc rocksdb exponential:10us lognormal:10us:3 lognormal:10us:10 \
fixed:10us bimodal:0.9:10us:100us bounded-pareto:1us:100ms:1.1}
policies=${POLICIES:-auto,global,steal,hybrid,ondemand,levels,isolated}

csv=$(mktemp)
trap 'rm -f "$csv"' EXIT
echo '| workers | mix | load | auto | best fixed | ratio |'
echo '|---|---|---|---|---|---|'
for workers in ${WORKERS:-2 14 64}; do
    for mix in $mixes; do
        for seed in ${SEEDS:-1}; do
            # shellcheck disable=SC2086 # the flags are words
            "$bin/forebay" simulate --workload "$mix" --workers "$workers" --load "${LOADS:-0.7,0.9,0.95}" --seed "$seed" \
                --policy "$policies" --overheads "${OVERHEADS:-stock}" --requests "${REQUESTS:-400000}" --quiet --csv "$csv" \
                ${FLAGS:-} >/dev/null
            cat "$csv"
        done
    done
done | awk -F, '
    $1 == "policy" { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["class"] == "all" {
        cell = "| " $at["workers"] " | " $at["workload"] " | " $at["load"]
        run = cell SUBSEP $at["seed"]
        p999 = $at["slowdown_p99_9"]
        if (p999 == "inf") p999 = 1e300
        if (!(run in seen)) { seen[run]; runs[cell] = runs[cell] SUBSEP run; if (!(cell in cells)) { cells[cell]; order[++n] = cell } }
        if ($1 == "auto") auto[run] = p999
        else if (!(run in best) || p999 + 0 < best[run] + 0) { best[run] = p999; name[run] = $1 }
    }
    END {
        for (c = 1; c <= n; c++) {
            cell = order[c]
            count = split(substr(runs[cell], 2), parts, SUBSEP) / 2
            delete ratio
            for (k = 1; k <= count; k++) {
                run = parts[2 * k - 1] SUBSEP parts[2 * k]
                ratio[k] = auto[run] / best[run]
                for (j = k; j > 1 && ratio[j] < ratio[j - 1]; j--) { t = ratio[j]; ratio[j] = ratio[j - 1]; ratio[j - 1] = t }
            }
            median = ratio[int((count + 1) / 2)]
            near += median <= 1.1; fair += median <= 1.25
            printf "%s | %.4g | %s %.4g | %.2f |\n", cell, auto[run], name[run], best[run], median
        }
        printf "\n%d cells: at most 1.1 in %d, at most 1.25 in %d\n", n, near, fair
    }'
