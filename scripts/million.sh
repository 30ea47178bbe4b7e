#!/usr/bin/env bash
# Sweeps a million seeds that nobody has seen, in parts of 10,000, and prints what was met how often,
# the rarest first. It can be interrupted: it goes on with the parts that are missing.
#
#   scripts/million.sh [SEEDS [FROM]]
#
# Without FROM the seeds begin at a number that is made of the commit's digest. The summaries of the
# parts stay in `target/million`, in a folder for each build of the program. Fails if a seed does.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=${1:-1000000}
part=${PART:-10000}
program=${RETRIAL_SIM:-target/release/retrial-sim}
if [ -z "${RETRIAL_SIM:-}" ]; then
  # They would replace the flags of .cargo/config.toml.
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
  cargo build --release --locked -p retrial-sim
fi
from=${2:-$("$program" run --seeds "1@$(git rev-parse HEAD)" | sed -n 's/^range  *\([0-9]*\)\.\..*/\1/p')}

folder=${PARTS:-target/million}/$(sha256sum "$program" | cut -c 1-16)
mkdir -p "$folder"
files=()
for ((first = from; first < from + seeds; first += part)); do
  end=$((first + part < from + seeds ? first + part : from + seeds))
  file=$folder/$first-$end.json
  files+=("$file")
  if ! [ -e "$file" ]; then
    # What fails is in the summary.
    "$program" run --seeds "$first..$end" --json "$file.new" >"$folder/said" || [ -e "$file.new" ]
    mv "$file.new" "$file"
    echo "seeds $first..$end: $(sed -n 's/^seeds *//p' "$folder/said")" >&2
  fi
done
echo "range                  $from..$((from + seeds))"
"$program" total "${files[@]}"
