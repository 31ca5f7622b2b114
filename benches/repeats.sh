#!/bin/sh
# How much CPU time do equal requests take that arrive at once, if `Once` merges them? Prints the CPU seconds of
# `examples/coap` for single requests, for the same requests with ten copies each, in turn, and the ratio. Needs curl,
# jq, Python 3, and `cargo build --profile dist --example coap`.
#
# A request asks for the factors of a number. NUMBER=1000000000039 COPIES=10 REQUESTS=1000 PAIRS=5 benches/repeats.sh
set -eu

number=${NUMBER:-10000000019}
copies=${COPIES:-10}
# shellcheck disable=SC2034 # for server.sh
program=examples/coap
# shellcheck source=benches/server.sh
. "${0%/*}/server.sh"

# Sends requests with $1 copies each, three requests at a time, and waits for the answers.
drive() {
    python3 - "$(curl -s "http://$admin/latency" | jq -r .listen)" "${REQUESTS:-1000}" "$1" "$number" <<'END'
import socket, struct, sys
listen, requests, copies, number = sys.argv[1:]
host, port = listen.rsplit(":", 1)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect((host, int(port)))
client.settimeout(10)
options = b"\xb7factors" + bytes([0x40 | len(number)]) + number.encode()
for first in range(0, int(requests), 3):
    ids = {first, first + 1, first + 2}
    for id in ids:
        for _ in range(int(copies)):
            client.send(struct.pack(">BBH", 0x40, 1, id) + options)
    while ids:
        ids.discard(struct.unpack_from(">H", client.recv(2048), 2)[0])
END
}

# CPU seconds that the server has used.
used() {
    awk -v hertz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hertz }' "/proc/$server/stat"
}

start --workers 1
drive 1
pair=0
while [ "$pair" -lt "${PAIRS:-5}" ]; do
    a=$(used)
    drive 1
    b=$(used)
    drive "$copies"
    c=$(used)
    awk "BEGIN { printf \"%.2f s once, %.2f s with $copies copies: %.3f\n\", $b - $a, $c - $b, ($c - $b) / ($b - $a) }"
    pair=$((pair + 1))
done
curl -s "http://$admin/latency" | jq -c .fates
stop
