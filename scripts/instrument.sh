#!/usr/bin/env bash
# Cargo's RUSTC_WORKSPACE_WRAPPER of scripts/fuzz.sh: compiles a crate so that libFuzzer sees which
# edges ran and what was compared. One unit, because the pass makes a table for each.
exec "$@" -Ccodegen-units=1 -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
