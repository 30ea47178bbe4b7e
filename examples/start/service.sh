#!/bin/sh
# The service behind a script: starts it on a file, uploads a workflow, submits a run, follows it to
# its end. Needs curl, and the endpoint of the workflow:
#
#     cargo run --release --example flaky_server -- --port 8080 --fail 2 &
#     cargo build --release && examples/start/service.sh
set -eu

retrial=${RETRIAL:-target/release/retrial}
workflow=${1:-examples/hello.toml}
service=http://${LISTEN:=127.0.0.1:7070}
folder=$(mktemp -d)

"$retrial" serve --store "$folder/runs.redb" --listen "$LISTEN" &
trap 'kill $!; rm -rf "$folder"' EXIT
curl -fsS --retry 20 --retry-delay 1 --retry-connrefused -o "$folder/ready" "$service/readyz"

curl -fsS -X PUT -H 'Content-Type: application/toml' --data-binary "@$workflow" \
  "$service/v1/workflows/hello"

# Whoever submits under the same key again gets the same run.
run=$(curl -fsS -H 'Content-Type: application/json' -H 'Idempotency-Key: order-7' \
  -d '{"workflow":"hello"}' "$service/v1/runs" | sed -n 's/.*"run":"\([^"]*\)".*/\1/p')

# The stream of events ends with the run.
curl -fsSN "$service/v1/runs/$run/events"
