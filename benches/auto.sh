#!/bin/sh
# Is the default policy near the best one for every mix, load and number of workers, in virtual time with all overheads?
# Prints a row for each cell: the p99.9 slowdown under `auto`, the lowest under any fixed policy, and their ratio. Then
# comes the p99.9 latency of `auto` over the p99.9 latency of `global`. The last lines count the cells within a bound. With
# several seeds the ratios of a cell are medians. Needs `cargo build --release` and python3. POLICIES must contain auto and
# global.
#
# A list is words: MIXES="tpcc rocksdb" LOADS=.7,.9 WORKERS="2 14" SEEDS="1 2 3" REQUESTS=2000000 benches/auto.sh
# Further flags of `simulate`: FLAGS="--groups 4" benches/auto.sh
# In bursts of 2.2:10ms:20ms (benches/README.md also has 1.5:10ms:10ms and 4:2ms:8ms):
#
#     MIXES="bimodal:0.99:10us:1ms tpcc lognormal:10us:3 high-bimodal exponential:10us" LOADS=.5,.7,.85 \
#         FLAGS="--arrivals bursts:2.2:10ms:20ms --max-wait auto" REQUESTS=200000 SEEDS="1 2 3" benches/auto.sh
set -eu

bin=${BIN:-target/release}
mixes=${MIXES:-extreme-bimodal high-bimodal tpcc rocksdb exponential:10us lognormal:10us:3 lognormal:10us:10 \
fixed:10us bimodal:0.9:10us:100us bounded-pareto:1us:100ms:1.1}
policies=${POLICIES:-auto,global,steal,levels,isolated}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
for workers in ${WORKERS:-2 14 64}; do
    for mix in $mixes; do
        for seed in ${SEEDS:-1}; do
            # shellcheck disable=SC2086 # the flags are words
            "$bin/loadgen" simulate --workload "$mix" --workers "$workers" --load "${LOADS:-0.7,0.9,0.95,0.98}" --seed "$seed" \
                --policy "$policies" --overheads "${OVERHEADS:-stock}" --requests "${REQUESTS:-400000}" --quiet --json "$out" \
                ${FLAGS:-} >/dev/null
            cat "$out"
        done
    done
done | python3 "$(dirname "$0")/auto.py"
