#!/usr/bin/env bash
# Applies to this host what `forebay check --host` recommends, and brings back what was. deploy/host.md explains each row.
#
#     deploy/host-setup.sh [FLAG OF CHECK...]            applies; prints each value before and after
#     deploy/host-setup.sh --dry-run [FLAG OF CHECK...]  only prints
#     deploy/host-setup.sh --undo                        brings back what was before the first run
#
# Flags of the check are those of the server: --listen 0.0.0.0:9000 --workers 8.
# Variables: FOREBAY, the program (default: forebay in the path); SAVED, the file of what was (default:
# /var/lib/forebay/host-setup.saved); ROOT, the folder with the host's proc and sys (default: none, this host).
# Exit codes: 0 done, 1 something could not be written, 2 wrong usage or no check. A reboot undoes it too.
set -euo pipefail

FOREBAY=${FOREBAY:-forebay}
SAVED=${SAVED:-/var/lib/forebay/host-setup.saved}
ROOT=${ROOT:-}
failed=0

# Writes a text into a file; says what was and what is.
put() {
    local path=$1 text=$2 was is
    if ! was=$(<"$path"); then
        printf '%s: cannot be read\n' "$path" >&2
        failed=1
        return
    fi
    if $dry; then
        printf '%s: %s, would be %s\n' "$path" "$was" "$text"
        return
    fi
    # What was before the first run stays saved; a second run does not take its own values for it.
    if $save && ! grep -qxF -- "$path" < <(cut -f 1 "$SAVED"); then
        printf '%s\t%s\n' "$path" "${was//$'\t'/ }" >>"$SAVED"
    fi
    if ! printf '%s\n' "$text" >"$path"; then
        printf '%s: cannot be written\n' "$path" >&2
        failed=1
        return
    fi
    is=$(<"$path")
    printf '%s: %s, now %s\n' "$path" "$was" "$is"
}

apply() {
    local found code=0 text pattern path
    found=$("$FOREBAY" check --host "$@" ${ROOT:+--root "$ROOT"}) || code=$?
    if ((code > 1)) || [[ -z $found ]]; then
        printf '%s check --host ended with %d\n' "$FOREBAY" "$code" >&2
        exit 2
    fi
    if ! $dry; then
        mkdir -p "$(dirname "$SAVED")"
        touch "$SAVED"
    fi
    while IFS=$'\t' read -r text pattern; do
        # The pattern may name a file of each CPU.
        while IFS= read -r path; do
            put "$path" "$text"
        done < <(compgen -G "$ROOT$pattern")
    done < <(sed -n 's/^    change: echo \(.*\) | tee \(.*\)$/\1\t\2/p' <<<"$found")
    sed -n '/^    change: echo /!s/^    change: /by hand: /p' <<<"$found"
}

undo() {
    local path text
    if [[ ! -e $SAVED ]]; then
        printf 'nothing is saved in %s\n' "$SAVED"
        return
    fi
    while IFS=$'\t' read -r path text; do
        put "$path" "$text"
    done < <(tac "$SAVED")
    # What could not be brought back stays saved.
    if ((failed == 0)); then
        rm "$SAVED"
    fi
}

dry=false save=true
case ${1-} in
    --dry-run)
        shift
        dry=true
        apply "$@"
        ;;
    --undo)
        if (($# > 1)); then
            printf '%s --undo takes no flags\n' "$0" >&2
            exit 2
        fi
        save=false
        undo
        ;;
    *) apply "$@" ;;
esac
exit "$failed"
