#!/usr/bin/env bash
# Compiles as rustc does, and lints on the way: RUSTC_WORKSPACE_WRAPPER=scripts/lint.sh cargo test.
# `cargo clippy` and `cargo doc` would check every crate once more, the dependencies too.
#
# Only the libraries are optimised as the profile says. Tests, benches and examples take three times as
# long to compile where they are optimised, and run no faster. The cfg tells them which they are.
#
# Where DOCS names a folder, each library is documented there as well: in `whole` with everything that
# it has, and in `promised` without the feature `unstable`; where it has none, both are one.
set -euo pipefail

document() {
  local to=$1
  shift
  local said=()
  while [ $# -gt 0 ]; do
    case $1 in
      --crate-name | --check-cfg | --extern | -L) said+=("$1" "$2") && shift ;;
      --cfg)
        if [ "$to" = whole ] || [ "$2" != 'feature="unstable"' ]; then said+=("$1" "$2"); fi
        shift
        ;;
      -C | --crate-type | --out-dir) shift ;;
      --edition=* | *.rs) said+=("$1") ;;
    esac
    shift
  done
  rustdoc "${said[@]}" --error-format=human -D warnings --out-dir "$DOCS/$to" >&2
}

# The source of a bench.
bench=' ([^ ]*/)?benches/[^/ ]*\.rs '
if [ -n "${DOCS:-}" ] && [[ " $* " == *" --crate-type lib "* ]]; then
  # The first argument is the compiler.
  document whole "${@:2}" &
  whole=$!
  promised=
  if [[ "$*" == *'feature="unstable"'* ]]; then
    document promised "${@:2}" &
    promised=$!
  fi
  clippy-driver "$@" -D warnings
  wait "$whole"
  if [ -n "$promised" ]; then
    wait "$promised"
  else
    name=$(sed 's/.*--crate-name \([^ ]*\) .*/\1/' <<<"$*")
    mkdir -p "$DOCS/promised"
    ln -sfn "$DOCS/whole/$name" "$DOCS/promised/$name"
  fi
elif [[ " $* " =~ $bench ]]; then
  # It is only checked: nobody runs a bench that is not optimised.
  exec clippy-driver "${@/#--emit=dep-info,link/--emit=dep-info,metadata}" --cfg unoptimised -D warnings
else
  exec clippy-driver "$@" -C opt-level=0 --cfg unoptimised -D warnings
fi
