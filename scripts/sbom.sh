#!/usr/bin/env bash
# Writes what the binary `retrial` is built from, as CycloneDX, to target/retrial.cdx.json (or the
# file that is named). Uses cargo-sbom, and installs it below target/ where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
into=${1:-target/retrial.cdx.json}
version=0.10.0
tool=$(command -v cargo-sbom || true)
if [ -z "$tool" ]; then
  cargo install --locked --root target/tools "cargo-sbom@$version"
  tool=target/tools/bin/cargo-sbom
fi
mkdir -p "$(dirname "$into")"
"$tool" --cargo-package retrial-service --output-format cyclone_dx_json_1_6 >"$into.new"
mv "$into.new" "$into"
echo "$into"
