# Starts servers for a script that reads this file. A server ends with the script. Needs `cargo build --profile dist
# --workspace`.

bin=${BIN:-target/dist}
# The servers are on this host, so curl must not use a proxy.
export NO_PROXY='*' no_proxy='*'
tmp=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    rm -rf "$tmp"
}
trap end EXIT

# Starts a server with these flags. Sets $server to its process id, and $admin to its endpoint. It listens at $listen, if
# that is set.
start() {
    rm -f "$tmp/server"
    # shellcheck disable=SC2086 # a program and its command
    "$bin"/${program:-forebay serve} --listen "${listen:-127.0.0.1:0}" --admin 127.0.0.1:0 --drain-timeout "${drain:-0s}" "$@" >"$tmp/server" 2>/dev/null &
    server=$!
    until grep -qs '^listening' "$tmp/server"; do sleep 0.1; done
    admin=$(sed -n 's|^listening.* admin http://||p' "$tmp/server")
}

stop() {
    kill -TERM "$server"
    wait "$server" || true
    server=
}
