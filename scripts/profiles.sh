#!/usr/bin/env bash
# Builds the simulation in both profiles and compares: a seed has one history, whatever the profile.
# usage: scripts/profiles.sh [LAST_SEED]
set -euo pipefail
cd "$(dirname "$0")/.."

# They would replace the flags of .cargo/config.toml.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

cargo build --locked --package retrial-sim --bin retrial-sim
cargo build --locked --release --package retrial-sim --bin retrial-sim

fingerprint() { "target/$1/retrial-sim" repro "$2" | tail -n 1; }

for seed in $(seq 0 "${1:-15}"); do
  debug=$(fingerprint debug "$seed")
  release=$(fingerprint release "$seed")
  if [ "$debug" != "$release" ]; then
    echo "seed $seed: $debug in the debug build, $release in the release build" >&2
    exit 1
  fi
done
echo "both profiles agree"
