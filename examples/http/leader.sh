#!/bin/sh
# Runs a command while this process leads, with nothing but curl and a shell.
#
#   ./leader.sh NAME COMMAND [ARGUMENT ...]
#
# The command finds its fencing token in $FENCING_TOKEN: whatever it writes to should refuse every token smaller than one it has seen.
# It is started when NAME is led, and killed before anybody else can lead.
#
# What it can't do: a shell that is stopped (SIGSTOP, a suspended machine) or killed by SIGKILL does not end its command in time. The fencing
# token is what protects against that, and against what the command has started in its turn, which is not killed with it; `tenure run NAME -- COMMAND` ends
# all of it.
#
#   TENURE_URL    where the daemon is, usually http://127.0.0.1:4040
#   TENURE_TOKEN  the bearer token, if it wants one
#   TTL_MS        how long the lease lives without being refreshed, usually 15000
set -u

[ $# -ge 2 ] || { echo "usage: $0 NAME COMMAND [ARGUMENT ...]" >&2; exit 2; }
name=$1
case $name in
    *[!A-Za-z0-9._-]*) echo "$0: NAME is $name: write letters, digits, dots, dashes and underscores" >&2; exit 2 ;;
esac
shift
url=${TENURE_URL:-http://127.0.0.1:4040}/locks/$name
ttl=${TTL_MS:-15000}
# Nobody else may be called so: two with one name would be one holder.
holder=$(uname -n)-$$-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
answer=$(mktemp) || exit 1
work=
term=

# Milliseconds on the clock that goes on while the machine sleeps. Never the wall clock, which can be set.
now() {
    read -r up _ < /proc/uptime
    echo "${up%.*}${up#*.}0"
}

seconds() {
    printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
}

# ask METHOD PATH BODY MILLISECONDS: sets $status; 000 if there was no answer, which says nothing about what happened.
ask() {
    # The token is no argument, which everybody could read.
    status=$(
        { [ -z "${TENURE_TOKEN:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$TENURE_TOKEN"; } |
            curl -s -K - -X "$1" -H 'Content-Type: application/json' -d "$3" -m "$(seconds "$4")" -o "$answer" -w '%{http_code}' "$url$2"
    )
}

number() {
    sed -n "s/.*\"$1\": *\([0-9][0-9]*\).*/\1/p" "$answer"
}

stop_work() {
    [ -z "$work" ] || kill -KILL "$work" 2>/dev/null
    [ -z "$work" ] || wait "$work" 2>/dev/null
    work=
}

# First the work ends, then the lease is given up: in its own term only, so that a late request takes nothing from a successor.
leave() {
    trap - EXIT INT TERM HUP
    stop_work
    [ -z "$term" ] || ask DELETE '' "{\"holder\": \"$holder\", \"term\": $term}" 5000
    rm -f "$answer"
    exit "$1"
}
trap 'leave 0' EXIT
trap 'leave 143' INT TERM HUP

# A tenth of the ttl for clocks that differ in speed, and for the time that killing takes.
margin=$((ttl / 10))

lead() {
    echo "leads in term $term"
    FENCING_TOKEN=$term "$@" &
    work=$!
    next=$((asked + ttl / 3))
    while kill -0 "$work" 2>/dev/null; do
        time=$(now)
        if [ "$time" -ge "$until" ]; then
            break
        elif [ "$time" -lt "$next" ]; then
            sleep 0.1
            continue
        fi
        asked=$time
        left=$((until - asked))
        ask POST /refresh "{\"holder\": \"$holder\", \"term\": $term}" $((left < ttl / 3 ? left : ttl / 3))
        case $status in
            200) until=$((asked + ttl - margin)) next=$((asked + ttl / 3)) ;;
            409) break ;;
            # Unknown: it holds until the time is over, and is asked again.
            *) next=$((asked + ttl / 10)) ;;
        esac
    done
    if kill -0 "$work" 2>/dev/null; then
        stop_work
        echo "lost in term $term"
        term=
        return
    fi
    # The command is done.
    wait "$work"
    code=$?
    work=
    leave "$code"
}

while :; do
    # The lease counts from before it was asked for: the answer may take long.
    asked=$(now)
    ask POST /claim "{\"holder\": \"$holder\", \"ttl_ms\": $ttl}" $((ttl / 3))
    if [ "$status" = 200 ]; then
        term=$(number term)
        until=$((asked + ttl - margin))
        lead "$@"
    elif [ "$status" != 409 ] && [ "$status" -ge 400 ]; then
        echo "refused with $status: $(cat "$answer")" >&2
        [ "$status" -ge 500 ] || leave 1
    fi
    sleep 0.5
done
