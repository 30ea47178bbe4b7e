#!/usr/bin/env bash
# Attacks `retrial serve` as a hostile user would, on loopback, with 2 GB of address space. Ends with 0
# if every run that was acknowledged is present, health answered throughout, and nothing restarted.
# Needs Python 3, and nothing else.
#
#   scripts/attack.sh [NAME...]       only these attacks; --list names them
#   BINARY=PATH scripts/attack.sh     another binary than target/release/retrial
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${BINARY:-}" ]; then
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
  cargo build --locked --release --package retrial-service --bin retrial
  BINARY=$(realpath "${CARGO_TARGET_DIR:-target}")/release/retrial
fi
ulimit -n "$(ulimit -Hn)"
BINARY=$BINARY exec python3 scripts/attack.py "$@"
