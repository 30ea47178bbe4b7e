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

# The browser that the tests of pages drive.
if ! command -v chromedriver >/dev/null || ! command -v chromium >/dev/null; then
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
  fi
  if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
    echo "chromium and chromedriver are missing: install them (on Debian: the packages chromium and chromium-driver) and run this again" >&2
    exit 1
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium chromium-driver
fi

# An environment RUSTFLAGS replaces the flags of .cargo/config.toml, without which the simulated
# world does not build.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

exec cargo test --workspace --locked -- --include-ignored
