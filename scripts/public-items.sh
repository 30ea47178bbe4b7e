#!/usr/bin/env bash
# Counts the items that each published crate promises: those that its documentation lists without the
# feature `unstable`. Documents each crate as docs.rs does, so links to hidden items fail here, too;
# scripts/public-items.sh FOLDER counts what is documented there.
set -euo pipefail
cd "$(dirname "$0")/.."

most=400
total=0
for package in retrial-core retrial retrial-service retrial-sim; do
  if [ $# -eq 0 ]; then
    case $package in
      retrial-core) features=(--features report) ;;
      retrial) features=(--features compression,http,metrics,otlp,postgres,tls) ;;
      retrial-service) features=() ;;
      # Its binary needs `unstable`.
      retrial-sim) features=(--no-default-features) ;;
    esac
    RUSTDOCFLAGS="--cfg madsim -D warnings" \
      cargo doc --quiet --no-deps --locked --lib --package "$package" "${features[@]}"
  fi
  list=${1:-target/doc}/${package//-/_}/all.html
  count=$(grep -oE 'href="([a-z_]+/)*(struct|enum|union|trait|traitalias|fn|macro|derive|attr|type|constant|static)\.' "$list" | wc -l)
  printf '%-16s %4d\n' "$package" "$count"
  total=$((total + count))
done
printf '%-16s %4d (at most %d)\n' total "$total" "$most"
[ "$total" -le "$most" ]
