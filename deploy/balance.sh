#!/usr/bin/env bash
# Spreads the datagrams to one address over all servers that are ready, by nftables. Replies leave from this address.
#
#     deploy/balance.sh ADDRESS:PORT SERVER...    runs until a signal, and then removes its table
#
# ADDRESS is an IPv4 address of this host, each SERVER the IPv4 address of a server on the same port. Each server must
# route its replies through this host. Needs root (or CAP_NET_ADMIN), bash, curl, nft, and net.ipv4.ip_forward.
#
# A flow (address and port of the client) has one of 60 slots, and each slot has a home server. While its home is not ready,
# the slot goes to another server. The kernel tracks no connections: no table can fill, and a flow moves at once.
# Variables: ADMIN_PORT (9001), the port of /readyz; INTERVAL (0.2 seconds); FAILURES (2 in a row take a server out);
# TABLE (forebay_balance). While no server is ready, all servers get their share.
set -euo pipefail

if (($# < 2)) || [[ $1 != *:* ]]; then
    sed -n '2,/^set/ s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
address=${1%:*} port=${1##*:}
shift
servers=("$@")
ADMIN_PORT=${ADMIN_PORT:-9001} INTERVAL=${INTERVAL:-0.2} FAILURES=${FAILURES:-2} TABLE=${TABLE:-forebay_balance}
SLOTS=60

failures=()
for at in "${!servers[@]}"; do
    failures[at]=0
done

# The rules for these servers, in one transaction, so that no datagram sees only half of them.
rules() {
    local ready=("$@") slot home map=()
    for ((slot = 0; slot < SLOTS; slot++)); do
        home=${servers[slot % ${#servers[@]}]}
        [[ " ${ready[*]} " == *" $home "* ]] || home=${ready[slot / ${#servers[@]} % ${#ready[@]}]}
        map+=("$slot : $home")
    done
    nft -f - <<END
flush chain ip $TABLE requests
add rule ip $TABLE requests ip daddr $address udp dport $port notrack ip daddr set jhash ip saddr . udp sport mod $SLOTS seed 1 map { $(IFS=,; printf '%s' "${map[*]}") }
END
    printf '%(%FT%T)T ready: %s\n' -1 "${ready[*]}"
}

# The table. `nft list table ip forebay_balance` shows the datagrams to and from each server.
start() {
    local server
    nft -f - <<END
add table ip $TABLE
delete table ip $TABLE
add table ip $TABLE
add chain ip $TABLE requests { type filter hook prerouting priority raw; }
add chain ip $TABLE replies { type filter hook postrouting priority srcnat; }
add chain ip $TABLE notracked { type filter hook prerouting priority raw - 1; }
add chain ip $TABLE counted { type filter hook forward priority filter; }
END
    for server in "${servers[@]}"; do
        nft -f - <<END
add rule ip $TABLE notracked ip saddr $server udp sport $port notrack
add rule ip $TABLE counted ip daddr $server udp dport $port counter
add rule ip $TABLE counted ip saddr $server udp sport $port counter
add rule ip $TABLE replies ip saddr $server udp sport $port ip saddr set $address
END
    done
}

is_ready() {
    curl --silent --fail --noproxy "*" --output /dev/null --max-time "$INTERVAL" "http://$1:$ADMIN_PORT/readyz"
}

trap 'nft delete table ip "$TABLE"' EXIT
trap 'exit 0' INT TERM
start
rules "${servers[@]}"
before="${servers[*]}"
while sleep "$INTERVAL"; do
    ready=() asked=()
    for server in "${servers[@]}"; do
        is_ready "$server" &
        asked+=($!)
    done
    for at in "${!servers[@]}"; do
        if wait "${asked[at]}"; then
            failures[at]=0
        else
            failures[at]=$((failures[at] + 1))
        fi
        ((failures[at] >= FAILURES)) || ready+=("${servers[at]}")
    done
    ((${#ready[@]} > 0)) || ready=("${servers[@]}")
    if [[ ${ready[*]} != "$before" ]]; then
        before=${ready[*]}
        rules "${ready[@]}"
    fi
done
