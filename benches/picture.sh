#!/usr/bin/env bash
# Draws benches/picture.svg for the README: the p99.9 slowdown of short requests by load, in virtual time. Takes about a
# minute. Needs python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --quiet -p loadgen
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for arrivals in poisson bursts:2.2:10ms:20ms; do
    target/release/loadgen simulate --policy isolated,steal,pools,auto --workload bimodal:0.99:10us:1ms --overheads stock \
        --arrivals "$arrivals" --max-wait auto --load 0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.85,0.9 --requests 1000000 --quiet \
        --json "$tmp/$arrivals.json" >/dev/null
done
python3 benches/picture.py "$tmp/poisson.json" "$tmp/bursts"* >benches/picture.svg
