#!/usr/bin/env bash
# Counts lines and crates of the first program of Retrial and of its peers, and the processor time of
# a debug build of each, with all it depends on. Takes some minutes; prints a table.
set -euo pipefail
cd "$(dirname "$0")/../examples/peers"
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
cargo fetch --quiet

programs=${*:-retrial-future backon tower retrial restate temporal}
if [[ " $programs " == *" temporal "* ]] && ! command -v protoc >/dev/null; then
  echo "temporal needs protoc to build (Debian: protobuf-compiler, libprotobuf-dev)" >&2
  exit 1
fi

echo "| program | lines | crates | a build, processor time |"
echo "| --- | --- | --- | --- |"
for program in $programs; do
  # Lines that are neither blank nor a comment.
  lines=$(grep -cvE '^\s*(//.*)?$' "$program/src/main.rs")
  crates=$(cargo tree -p "hello-$program" -e normal,build --prefix none --no-dedupe --format '{p}' | sort -u | wc -l)
  TIMEFORMAT='%U %S'
  spent=$({ time CARGO_TARGET_DIR=$target cargo build --quiet -p "hello-$program" 2>"$target/said"; } 2>&1) || {
    cat "$target/said" >&2
    exit 1
  }
  # Nothing of one build is left for the next.
  rm -rf "${target:?}"/*
  echo "| \`$program\` | $lines | $crates | $(awk '{printf "%.0f s", $1 + $2}' <<<"$spent") |"
done
