#!/usr/bin/env bash
# Runs seeds in worlds whose nodes run two releases of the engine, this one and an older one, and are
# upgraded and downgraded while runs are under way.
#
#   scripts/two-releases.sh REVISION [FROM TO]    the seeds FROM to TO, 0 to 400 unless told
#   scripts/two-releases.sh REVISION planted      the changes of crates/releases/planted, one by one:
#                                                 each must be found by a seed of 400
#
# REVISION is the older release: a tag, or whatever git knows.
set -euo pipefail
cd "$(dirname "$0")/.."

# They would replace the flags of .cargo/config.toml.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
[ $# -gt 0 ] || { sed -n '5,9s/^# \?//p' "$0" && exit 2; }
revision=$(git rev-parse --short "$1^{commit}")
folder=$PWD/target/two-releases
planted=$PWD/crates/releases/planted
rm -rf "$folder/older" "$folder/newer"
mkdir -p "$folder/older" "$folder/newer"

git archive "$revision" | tar -x -C "$folder/older"
# Cargo tells two packages of one name apart by their versions.
sed -i '0,/^version = "\(.*\)"/s//version = "\1+older"/' "$folder/older/Cargo.toml"
git ls-files -z --cached --others --exclude-standard |
  xargs -0 cp --parents --preserve=timestamps --target-directory="$folder/newer"
sed -i "/^older = /s#path = \"[^\"]*\"#path = \"$folder/older\"#" "$folder/newer/crates/releases/Cargo.toml"
# They may have been built as something else.
sed -n 's#^+++ b/##p' "$planted"/*.patch | sort -u | sed "s#^#$folder/newer/#" | xargs -r touch

program=$folder/target/mutant/retrial-releases
build() {
  (cd "$folder/newer" && CARGO_TARGET_DIR=$folder/target cargo build --quiet --profile mutant \
    --package retrial-releases --bin retrial-releases)
}

echo "older release          $revision"
if [ "${2:-}" != planted ]; then
  build
  exec "$program" run "${2:-0}" "${3:-400}"
fi

# Git takes the copy for no part of this repository.
export GIT_CEILING_DIRECTORIES=$folder
code=0
for change in "$planted"/*.patch; do
  (cd "$folder/newer" && git apply "$change")
  build
  if "$program" run 0 400 >"$folder/said" 2>"$folder/errors"; then
    found="found by no seed" code=1
  else
    found=$(sed -n 's/^failing *//p; s/^seeds *//p' "$folder/said" | head -n 2 | tr '\n' ' ')
  fi
  printf '%-40s %s\n' "$(basename "$change" .patch)" "$found"
  (cd "$folder/newer" && git apply -R "$change")
done
exit "$code"
