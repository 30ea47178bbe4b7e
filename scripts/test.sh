#!/usr/bin/env bash
# Passes all tests of Retrial: installs what is missing, then runs every test, also those that
# plain `cargo test` leaves out because they need something installed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo >/dev/null; then
  # rustup's own place, when its shell set-up has not been read.
  export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust 1.95 or later (rustup does it) and run this again" >&2
  exit 1
fi

# What tests drive, ask or start: the browser of the tests of pages, systemd and groff for what is
# installed with the service, valgrind, which counts instructions, curl, the programs of PostgreSQL
# servers of their own.
missing=()
needs() {
  command -v "$1" >/dev/null || missing+=("$2")
}
needs chromium chromium
needs chromedriver chromium-driver
needs systemd-analyze systemd
needs groff groff-base
needs valgrind valgrind
needs curl curl
if ! [ -x "$(pg_config --bindir 2>/dev/null)/initdb" ] && ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
  missing+=(postgresql)
fi
if [ "${#missing[@]}" -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
  fi
  if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
    echo "some programs are missing: install them (on Debian: the packages ${missing[*]}) and run this again" >&2
    exit 1
  fi
  install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
  }
  "${as_root[@]}" apt-get update
  if [[ " ${missing[*]} " == *" postgresql "* ]]; then
    # Debian would make and start a server with the programs; the tests need none.
    install postgresql-common
    if ! grep -qs '^create_main_cluster' /etc/postgresql-common/createcluster.conf; then
      echo "create_main_cluster = false" | "${as_root[@]}" tee -a /etc/postgresql-common/createcluster.conf >/dev/null
    fi
  fi
  install "${missing[@]}"
fi

# An environment RUSTFLAGS replaces the flags of .cargo/config.toml, without which the simulated
# world does not build.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

# Many tests wait for servers and processes.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}

# A line for each test program: the folder of its package, and its path.
built=$(cargo test --workspace --locked --no-run --message-format json-render-diagnostics)
programs=$(sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"test":true},"features".*"executable":"\([^"]*\)".*/\1 \2/p' <<<"$built")
echo "$(wc -l <<<"$programs") test programs"

run() {
  cd "$1"
  local name said code=0
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
  said=$(CARGO_MANIFEST_DIR=$1 CARGO_PKG_NAME=$name "$2" --include-ignored 2>&1) || code=$?
  printf '\n     Running %s (%d s)\n%s\n' "$2" "$SECONDS" "$said"
  return "$code"
}
export -f run

# Cargo would run one after the other, and the cores would be idle while tests wait. Here four lanes
# run side by side: programs whose tests mostly wait, for servers and processes; one that counts for
# long with a single thread, and would be the last where the others share the cores with it; those
# that compute, as far as cores are free, the longest first; and the examples of the documentation.
waiting="store server cli engine"
single="bounds"
computing="world seeds check lab"
named() {
  for name in $1; do grep "/$name-[0-9a-f]*$" <<<"$programs"; done
}
others() {
  grep -vE "/(${waiting// /|}|$single|${computing// /|})-[0-9a-f]*$" <<<"$programs"
}
documented() {
  local said code=0
  said=$(cargo test --workspace --locked --doc 2>&1) || code=$?
  printf '\n%s\n' "$said"
  return "$code"
}
code=0
documented &
examples=$!
named "$waiting" | xargs -L 1 bash -c 'run "$@"' run &
waits=$!
named "$single" | xargs -L 1 bash -c 'run "$@"' run &
counts=$!
{ named "$computing" && others; } |
  nice -n 5 xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 bash -c 'run "$@"' run || code=$?
wait "$counts" || code=$?
wait "$waits" || code=$?
wait "$examples" || code=$?
exit "$code"
