#!/usr/bin/env bash
# Compiles as rustc does, and lints on the way: RUSTC_WORKSPACE_WRAPPER=scripts/lint.sh cargo test.
# `cargo clippy` would check every crate once more, the dependencies too.
set -euo pipefail
exec clippy-driver "$@" -D warnings
