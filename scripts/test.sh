#!/usr/bin/env bash
# Passes all tests of Retrial: installs what is missing, then runs every test, also those that
# plain `cargo test` leaves out because they need something installed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo >/dev/null; then
  # rustup's own place, when its shell set-up has not been read.
  export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust 1.95 or later (rustup does it) and run this again" >&2
  exit 1
fi

# An environment RUSTFLAGS replaces the flags of .cargo/config.toml, without which the simulated
# world does not build.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

exec cargo test --workspace --locked -- --include-ignored
