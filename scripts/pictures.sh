#!/usr/bin/env bash
# Makes the pictures of README.md and docs from real runs: the inspector of a service on a temporary
# store, the simulation's report of a world in which a planted bug strikes, and the laboratory's report
# and map. Needs Chromium, curl and git.
#
#   scripts/pictures.sh [FOLDER]      (docs/pictures unless given)
set -euo pipefail
cd "$(dirname "$0")/.."

into=$(realpath -m "${1:-docs/pictures}")
# The bug of the second picture, and a seed that finds it: retries start after half of their delay.
bug=engine_retry_due_at_once seed=8

unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$(mktemp -d)
declare -a processes=()
stop() {
  for process in "${processes[@]}"; do
    kill "$process" 2>/dev/null || true
  done
  wait "${processes[@]}" 2>/dev/null || true
  rm -rf "$place"
}
trap stop EXIT

port() { # a free one
  for candidate in $(shuf -i 20000-32000 -n 50); do
    (: <"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || { echo "$candidate" && return; }
  done
}

answers() { # waits until an address does
  for _ in $(seq 100); do
    curl -s -o "$place/answer" "$1" && return
    sleep 0.1
  done
  echo "nothing answers at $1" >&2 && exit 1
}

picture() { # URL WIDTH,HEIGHT NAME
  # A headless browser prefers light colours.
  chromium --headless --no-sandbox --disable-gpu --run-all-compositor-stages-before-draw --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$place/browser" \
    --virtual-time-budget=4000 --window-size="$2" --screenshot="$into/$3.png" "$1" >"$place/log" 2>&1 || { cat "$place/log" >&2 && exit 1; }
  [ "$(stat -c %s "$into/$3.png")" -le 150000 ] || { echo "$3.png has more than 150 kB" >&2 && exit 1; }
}

mkdir -p "$into"
cargo build --locked --package retrial-lab --bin retrial-lab

# The laboratory: a queue that stays bad beside the same one with a budget, and how far it is safe.
lab="$target/debug/retrial-lab"
sed 's/^latency = .*/&\nretry_budget = 0.1/' examples/lab/queue.toml >"$place/budget.toml"
# It ends with 1: the first one does not recover.
"$lab" run examples/lab/queue.toml --against "$place/budget.toml" --html "$place/lab.html" >"$place/log" || [ $? -eq 1 ]
picture "file://$place/lab.html" 1200,900 laboratory
"$lab" map examples/lab/queue.toml --sweep load=0.1..1.2/12,trigger=0..2/5 --html "$place/map.html" >"$place/log"
picture "file://$place/map.html" 700,600 laboratory-map

cargo build --locked --package retrial-service --bin retrial
cargo build --locked --example flaky_server

# The inspector: one run whose tasks fail twice each. One of them has too few retries, and its failure
# is routed to another step.
endpoint=$(port)
"$target/debug/examples/flaky_server" --port "$endpoint" --fail 2 --slow 150 --quiet &
processes+=($!)
service=$(port)
"$target/debug/retrial" serve --store "$place/store.redb" --listen "127.0.0.1:$service" >"$place/served" 2>&1 &
processes+=($!)
answers "http://127.0.0.1:$service/readyz"
cat >"$place/order.toml" <<WORKFLOW
workflow = "order"
input = { items = ["lamp", "desk"] }
actions.reserve.http = "POST http://127.0.0.1:$endpoint/reserve"
actions.charge.http = "POST http://127.0.0.1:$endpoint/charge"
actions.pack.http = "POST http://127.0.0.1:$endpoint/pack"
actions.courier.http = "POST http://127.0.0.1:$endpoint/courier"
actions.post.http = "POST http://127.0.0.1:$endpoint/post"

[[steps]]
id = "reserve"
action = "reserve"
retry = "[retry: 3, backoff: 300ms]"

[[steps]]
id = "charge"
action = "charge"
after = ["reserve"]
retry = "[retry: 4, backoff: 500ms] [timeout: 5s]"

[[steps]]
id = "pack"
action = "pack"
after = ["reserve"]
for_each = "\${input.items}"
args = { item = "\${item}" }
retry_config = { max_attempts = 4, backoff_strategy = "fibonacci", initial_delay = 0.3 }

[[steps]]
id = "courier"
action = "courier"
after = ["charge", "pack"]
retry = "[retry: 1, backoff: 400ms]"

[[steps]]
id = "by_post"
action = "post"
work_config = { max_retries = 3, backoff = 300, backoff_type = "linear" }

[[transitions]]
from = "courier"
to = "by_post"
on_error = true
WORKFLOW
curl -fsS -o "$place/answer" -X PUT -H 'Content-Type: application/toml' --data-binary "@$place/order.toml" \
  "http://127.0.0.1:$service/v1/workflows/order"
run=$(curl -fsS -H 'Content-Type: application/json' -d '{"workflow":"order"}' "http://127.0.0.1:$service/v1/runs" |
  grep -o '"run":"[^"]*"' | cut -d'"' -f4)
for _ in $(seq 100); do
  curl -fsS "http://127.0.0.1:$service/v1/runs/$run" | grep -q '"phase":"completed"' && break
  sleep 0.2
done
picture "http://127.0.0.1:$service/#/runs/$run" 1100,1028 inspector

# The report: the bug is planted in a copy of the last commit, which is built apart.
mkdir "$place/planted"
git archive HEAD | tar x -C "$place/planted"
(
  cd "$place/planted"
  git apply "sim/mutants/$bug.patch"
  CARGO_TARGET_DIR=$target/pictures cargo run --locked --package retrial-sim -- \
    report "$seed" --scenario examples/payment.toml --into "$place"
)
picture "file://$(echo "$place/seed_$seed"*.html)" 1280,780 report
