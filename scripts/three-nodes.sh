#!/usr/bin/env bash
# Three nodes on one PostgreSQL under load, on this machine and without containers. Starts a server
# of its own in a temporary folder, the nodes, an endpoint that fails the first request of each task,
# and examples/load.rs; ends with 0 where every run completed. Leaves nothing behind.
#
#   scripts/three-nodes.sh [--runs N] [--rate N] [--kill SECONDS] [--debug]
#
# --kill: so often one node in turn is killed (SIGKILL) and started again meanwhile.
# --debug: unoptimised, which builds sooner.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=1000 rate=100 kill_every=0 profile=release
while [ $# -gt 0 ]; do
  case "$1" in
    --runs) runs=$2 && shift ;;
    --rate) rate=$2 && shift ;;
    --kill) kill_every=$2 && shift ;;
    --debug) profile=debug ;;
    *) echo "unknown argument $1" >&2 && exit 2 ;;
  esac
  shift
done

optimised=()
[ "$profile" = debug ] || optimised=(--release)
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
cargo build --locked --package retrial-service --package retrial --features retrial/http --bin retrial --example load --example flaky_server "${optimised[@]}"
target=$(realpath "${CARGO_TARGET_DIR:-target}")/$profile

initdb=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1 || true)
initdb=${initdb:-$(command -v initdb || true)}
[ -n "$initdb" ] || { echo "PostgreSQL's server programs are missing (on Debian: the package postgresql)" >&2 && exit 1; }
postgres=$(dirname "$initdb")

place=$(mktemp -d)
declare -a processes=()
# PostgreSQL refuses to be run by root.
as_nobody=()
if [ "$(id -u)" -eq 0 ]; then
  as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  chown 65534:65534 "$place"
fi
stop() {
  for process in "${processes[@]}"; do
    kill "$process" 2>/dev/null || true
  done
  wait "${processes[@]}" 2>/dev/null || true
  (cd "$place" && "${as_nobody[@]}" "$postgres/pg_ctl" stop -s -m immediate -D "$place/data") 2>/dev/null || true
  rm -rf "$place"
}
trap stop EXIT

port() { # a free one
  for candidate in $(shuf -i 20000-32000 -n 50); do
    (: <"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || { echo "$candidate" && return; }
  done
}

database=$(port)
(
  cd "$place"
  "${as_nobody[@]}" "$initdb" --username=retrial --auth=trust --no-locale --encoding=UTF8 --pgdata="$place/data" >/dev/null
  "${as_nobody[@]}" "$postgres/pg_ctl" start -s -w -D "$place/data" -l "$place/log" \
    -o "-c listen_addresses=127.0.0.1 -c port=$database -c unix_socket_directories="
)

store="postgres://retrial@127.0.0.1:$database/postgres?sslmode=disable"

endpoint=$(port)
"$target/examples/flaky_server" --quiet --port "$endpoint" --fail 1 &
processes+=($!)

head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$place/token"
declare -a ports=() urls=()
# Runs a node, and another one in its place whenever it has ended, until a signal stops it.
keep_node() { # its number
  local node=
  trap 'kill "$node" 2>/dev/null; wait "$node"; exit 0' TERM
  while true; do
    # Nodes may be killed all the time, whatever their tasks do.
    RETRIAL_STORE=$store "$target/retrial" serve --config /dev/null --set quarantine_after=0 \
      --listen "127.0.0.1:${ports[$1]}" --token-file "$place/token" --set lease=3s >>"$place/node$1" 2>&1 &
    node=$!
    echo "$node" >"$place/pid$1"
    wait "$node" || true
    sleep 0.2
  done
}
for node in 0 1 2; do
  ports[node]=$(port)
  urls[node]="http://127.0.0.1:${ports[node]}"
  keep_node "$node" &
  processes+=($!)
done
for node in 0 1 2; do
  for _ in $(seq 600); do
    if grep -qs Listening "$place/node$node"; then break; fi
    sleep 0.1
  done
  grep -q Listening "$place/node$node" || { cat "$place/node$node" >&2 && exit 1; }
done

if [ "$kill_every" != 0 ]; then
  (
    for turn in $(seq 1000000); do
      sleep "$kill_every"
      kill -KILL "$(cat "$place/pid$((turn % 3))")" || true
    done
  ) 2>/dev/null &
  processes+=($!)
fi

"$target/examples/load" --runs "$runs" --rate "$rate" --token-file "$place/token" \
  --call "http://127.0.0.1:$endpoint/work" "${urls[@]}"

echo "What the nodes list, and what is listed without them (the same is counted together):"
for place_of_runs in "${urls[@]}" "$store"; do
  RETRIAL_TOKEN_FILE=$place/token "$target/retrial" list --phase completed --store "$place_of_runs" | sha256sum | cut -c1-16
done | uniq -c
