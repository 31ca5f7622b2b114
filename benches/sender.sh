#!/bin/sh
# How well does loadgen keep its schedule at 250,000 requests/s and more, from one thread and from two? Prints a row for each
# number of flows, rate and number of threads: the slips, medians of five runs with the least and the most. The cases take
# turns. Needs python3, jq, and `cargo build --profile dist --workspace`. More runs: RUNS=9 benches/sender.sh
set -eu

bin=${BIN:-target/dist}
tmp=$(mktemp -d)
trap 'kill "$sink" 2>/dev/null || true; rm -r "$tmp"' EXIT

# A socket that nobody reads, as a reader would take a CPU from the senders. Its buffer is full after some hundred datagrams.
# Each send is charged the system call and the kernel's way down, over loopback, and up to the socket, which drops the
# datagram. It is not charged a place in the buffer, a wake-up of the reader, or a network card.
python3 -c '
import signal, socket
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("127.0.0.1", 0))
print(sink.getsockname()[1], flush=True)
signal.pause()
' >"$tmp/port" &
sink=$!
while ! [ -s "$tmp/port" ]; do sleep 0.1; done

for run in $(seq "${RUNS:-5}"); do
    for case in 1:500000:1 8:250000:1 256:250000:1 256:250000:2 256:350000:1 256:350000:2 256:500000:1 256:500000:2; do
        rate=${case#*:}
        # The verdict is INVALID, as nothing is answered.
        "$bin/loadgen" run --quiet --target "127.0.0.1:$(cat "$tmp/port")" --payload '01{counter:4}' --match prefix:4 \
            --flows "${case%%:*}" --rate "${rate%:*}" --threads "${case##*:}" --duration 3s --warmup 1s --timeout 100ms \
            --json "$tmp/run.json" >/dev/null 2>&1 || true
        jq -c '{flows, rate: .offered_rps, threads, slip: [.slip_us.p50, .slip_us.p99]}' "$tmp/run.json"
    done
done >"$tmp/runs"
echo '| flows | requests/s | threads | slip p50, us | slip p99, us |'
echo '|---|---|---|---|---|'
jq -rs 'def spread: sort | "\(.[length / 2 | floor] | round) (\(first | round)-\(last | round))";
    group_by([.flows, .rate, .threads])[] | first as {$flows, $rate, $threads}
    | "| \($flows) | \($rate) | \($threads) | \(map(.slip[0]) | spread) | \(map(.slip[1]) | spread) |"' "$tmp/runs"
