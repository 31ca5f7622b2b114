#!/bin/sh
# How well does loadgen keep its schedule at 250,000 requests/s and more, to a server that only receives? Prints a row for each
# number of flows and rate: the slips, medians of five runs with the least and the most. Needs python3, jq, and
# `cargo build --profile dist --workspace`. More runs: RUNS=9 benches/sender.sh
set -eu

bin=${BIN:-target/dist}
tmp=$(mktemp -d)
trap 'kill "$sink" 2>/dev/null || true; rm -r "$tmp"' EXIT

# It looks again and again, as a loaded server does: a sleeping one would be woken by each datagram.
taskset -c 1 python3 -c '
import socket
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("127.0.0.1", 0))
sink.setblocking(False)
print(sink.getsockname()[1], flush=True)
while True:
    try:
        sink.recv(2048)
    except BlockingIOError:
        pass
' >"$tmp/port" &
sink=$!
while ! [ -s "$tmp/port" ]; do sleep 0.1; done

echo '| flows | requests/s | slip p50, us | slip p99, us |'
echo '|---|---|---|---|'
for case in 1:250000 1:500000 8:250000 256:250000; do
    for run in $(seq "${RUNS:-5}"); do
        # The verdict is INVALID, as nothing is answered.
        "$bin/loadgen" run --quiet --target "127.0.0.1:$(cat "$tmp/port")" --payload '01{counter:4}' --match prefix:4 \
            --flows "${case%:*}" --rate "${case#*:}" --duration 3s --warmup 1s --timeout 100ms \
            --json "$tmp/run.json" >/dev/null 2>&1 || true
        jq -c '[.slip_us.p50, .slip_us.p99]' "$tmp/run.json"
    done | jq -rs --arg case "$case" 'def spread: sort | "\(.[length / 2 | floor] | round) (\(first | round)-\(last | round))";
        "| \($case | sub(":"; " | ")) | \(map(.[0]) | spread) | \(map(.[1]) | spread) |"'
done
