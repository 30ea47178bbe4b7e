#!/usr/bin/env bash
# Three nodes on a PostgreSQL of their own, under kill and load for some minutes (30 unless told
# otherwise), and a report of what came of it: scripts/soak.sh [MINUTES]
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-30}
case $minutes in
  '' | *[!0-9]*) echo "usage: scripts/soak.sh [MINUTES]" >&2; exit 2 ;;
esac

# They would replace the flags of .cargo/config.toml.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

RETRIAL_SOAK_SECONDS=$((minutes * 60)) exec cargo test --locked --package retrial --all-features --test store -- \
  --ignored --exact --nocapture postgres_faults::soak::three_nodes_lose_nothing_for_as_long_as_it_takes
