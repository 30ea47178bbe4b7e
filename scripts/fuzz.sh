#!/usr/bin/env bash
# Fuzzes, guided by coverage: scripts/fuzz.sh [TARGET|all] [SECONDS]. SECONDS, 60 unless given, are
# for each target; 0 goes on until it is stopped. As many targets run at once as there are cores.
# Begins with the inputs of crates/fuzz/corpus and those that earlier runs found, which are kept in
# target/fuzz/TARGET. What fails is written to target/fuzz/failures; give that file to the program
# that is printed.
#
# scripts/fuzz.sh TARGET keep: adds to crates/fuzz/corpus the inputs that reach what no other does.
set -euo pipefail
cd "$(dirname "$0")/.."

# They would replace the flags of .cargo/config.toml.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
named=${1:-all}
seconds=${2:-60}
found=target/fuzz
kept=crates/fuzz/corpus

# Only the code of this workspace is instrumented: the crates beneath it stay those of the tests.
build=(cargo test --workspace --locked --no-run --profile mutant
  --features retrial-fuzz/libfuzzer --test fuzz --message-format json-render-diagnostics)
program=$(RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/instrument.sh "${build[@]}" |
  sed -n 's/.*"executable":"\([^"]*\/fuzz-[^"]*\)".*/\1/p')
echo "fuzz: $program"

if [ "$named" = all ]; then
  targets=$(ls "$kept")
else
  targets=$named
fi
mkdir -p "$found/failures"

fuzz() {
  local target=$1
  mkdir -p "$found/$target"
  # No input is so large that an ordinary one takes seconds; whatever takes a minute hangs.
  TARGET=$target "$program" "$found/$target" "$kept/$target" -max_total_time="$seconds" \
    -max_len=16384 -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$found/failures/$target-" >"$found/$target.log" 2>&1 || {
    tail -n 40 "$found/$target.log"
    echo "fuzz: $target fails; see $found/$target.log and run TARGET=$target $program FILE"
    return 1
  }
  echo "fuzz: $target held for $(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$target.log") inputs"
}

if [ "$seconds" = keep ]; then
  TARGET=$named "$program" -merge=1 "$kept/$named" "$found/$named"
  exit
fi
export -f fuzz
export program found kept seconds
# Each target in a process, whose failure does not end the others.
xargs -P "$(getconf _NPROCESSORS_ONLN)" -I {} bash -c 'fuzz {}' <<<"$targets"
