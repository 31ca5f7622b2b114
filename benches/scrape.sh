#!/bin/sh
# How much CPU time does a scrape cost? A server is under constant load. Seconds with scrapes and seconds without take
# turns. The figure is the CPU time of the whole process that a scrape adds: the work of the endpoint, the work by which
# workers hand their histograms over, and colder caches. One scrape per second that adds 10 ms takes 1 % of one CPU.
# Idle workers sleep here, because spinning would hide the difference. Needs curl and `cargo build --profile dist --workspace`.
#
# ROUNDS=20 SCRAPES=20 WORKERS=1 LOAD=fixed:10us/20000 benches/scrape.sh
set -eu
# shellcheck source=benches/server.sh
. "$(dirname "$0")/server.sh"

bin=${BIN:-target/dist} rounds=${ROUNDS:-20} scrapes=${SCRAPES:-20} load=${LOAD:-bimodal:0.99:10us:500us/20000}

# The CPU time of all threads so far, in ns.
cpu() { cat /proc/"$server"/task/*/schedstat | awk '{ cpu += $1 } END { printf "%.0f\n", cpu }'; }

# Makes this many scrapes in a second, in this format. Prints the CPU time that the server used.
second() {
    before=$(cpu)
    end=$(($(date +%s%N) + 1000000000))
    for _ in $(seq "$1"); do curl -s -o "$tmp/body" -H "accept: $2" "http://$admin/metrics"; done
    sleep "$(echo "$end $(date +%s%N)" | awk '{ rest = ($1 - $2) / 1e9; printf "%.6f", (rest > 0 ? rest : 0) }')"
    echo $(($(cpu) - before))
}

start --workers "${WORKERS:-1}" --wait park --handler spin
"$bin/loadgen" run --admin "$admin" --cost "${load%/*}" --rate "${load#*/}" --warmup 200ms --duration "$((rounds * 4 + 5))s" \
    >"$tmp/run" 2>&1 &
loader=$!
sleep 2
protobuf='application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited'
for format in text/plain "$protobuf"; do
    for _ in $(seq "$rounds"); do
        with=$(second "$scrapes" "$format")
        echo "$(((with - $(second 0 "$format")) / scrapes / 1000)) $(wc -c <"$tmp/body")"
    done | sort -n | awk -v format="${format%%;*}" '{ us[NR] = $1; bytes = $2 }
        END { printf "%s: a scrape of %d bytes adds %d us of CPU time (middle half %d to %d)\n",
            format, bytes, us[int((NR + 1) / 2)], us[int((NR + 3) / 4)], us[int((3 * NR + 3) / 4)] }'
done
kill "$loader"
wait "$loader" || :
grep '^all ' "$tmp/run" || :
stop
