#!/bin/sh
# Does virtual time predict the latency of one real core? Serves a mix on one CPU, and reads the utilisation and the latency
# that the server reports. Then simulates the mix at this utilisation: the time of a request beside its work is charged as
# receive and send. Needs jq, two CPUs (the generator has the first), and `cargo build --profile dist --workspace`. A row
# has medians of ROUNDS, with the smallest and the largest:
#     ROUNDS=5 MIXES="tpcc/19.068/26950" benches/real.sh
# A mix is a workload, its mean cost in us, and the requests per second.
set -eu

bin=${BIN:-target/dist}
rounds=${ROUNDS:-5}
policy=${POLICY:-global}
mixes=${MIXES:-tpcc/19.068/26000 exponential:20us/20/25000 bimodal:0.95:10us:200us/19.5/25000}
tmp=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null; rm -rf "$tmp"' EXIT

# Serves the mix $1 at $2 requests per second. Prints utilisation, p50 and p90 of ten seconds.
serve() {
    taskset -c 1 "$bin/forebay" serve --workers 1 --policy "$policy" --max-wait off --listen 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$tmp/out" 2>&1 &
    server=$!
    for _ in $(seq 50); do
        sleep 0.1
        admin=$(grep -o 'http://[0-9.:]*' "$tmp/out") && break
    done
    taskset -c 0 "$bin/loadgen" run --quiet --admin "$admin" --workload "$1" --rate "$2" --warmup 2s --duration 12s \
        >"$tmp/run" 2>&1 &
    run=$!
    sleep 13
    curl -s --noproxy '*' "$admin/latency" | jq -r '[.utilisation["10s"], (.windows["10s"].total.all | .p50, .p90)] | join(" ")'
    # The exit code is 3 if the generator finds the run INVALID. The figures come from the server, so it is ignored.
    wait $run || [ $? = 3 ]
    kill $server
    wait $server 2>/dev/null || true
}

column() { cut -d' ' -f"$1" "$tmp/real" | sort -g; }
spread() { column "$1" | awk '{v[NR]=$1} END {printf "%.3g (%.3g to %.3g)", v[int((NR+1)/2)], v[1], v[NR]}'; }

echo '| mix | requests/s | utilisation | p50, us | virtual | p90, us | virtual |'
echo '|---|---|---|---|---|---|---|'
for mix in $mixes; do
    # shellcheck disable=SC2046 # three words
    set -- $(echo "$mix" | tr / ' ')
    workload=$1 mean=$2 rate=$3
    for _ in $(seq "$rounds"); do serve "$workload" "$rate"; done >"$tmp/real"
    load=$(column 1 | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}')
    send=$(echo "$load $rate $mean" | awk '{printf "%.2f", $1 * 1e6 / $2 - $3 - 0.5}')
    "$bin/loadgen" simulate --quiet --workload "$workload" --workers 1 --policy "$policy" --max-wait off --load "$load" \
        --overheads "stock,receive=0.5us,send=${send}us" --requests 1000000 --json "$tmp/simulated" >"$tmp/text"
    virtual=$(jq -r '.results[0].latency_us.all | [.p50, .p90 | . * 10 | round / 10] | join(" ")' "$tmp/simulated")
    echo "| $workload | $rate | $(spread 1) | $(spread 2) | ${virtual% *} | $(spread 3) | ${virtual#* } |"
done
