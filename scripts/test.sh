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

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo -n)
fi

# Installs Debian packages; the first argument says what is missing without them.
install() {
  local missing=$1
  shift
  if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
    echo "$missing: install what has them (on Debian the packages $*) and run this again" >&2
    exit 1
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

# The browser that the tests of pages drive.
if ! command -v chromedriver >/dev/null || ! command -v chromium >/dev/null; then
  install "chromium and chromedriver are missing" chromium chromium-driver
fi

# The programs of the servers that the tests of the PostgreSQL store start. Debian would make and
# start a server of its own with them; the tests need none.
has_postgres() {
  [ -x "$(pg_config --bindir 2>/dev/null)/initdb" ] || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
}
if ! has_postgres; then
  install "PostgreSQL's server programs are missing" postgresql-common
  "${as_root[@]}" mkdir -p /etc/postgresql-common
  if ! grep -qs '^create_main_cluster' /etc/postgresql-common/createcluster.conf; then
    echo "create_main_cluster = false" | "${as_root[@]}" tee -a /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  install "PostgreSQL's server programs are missing" postgresql
fi

# An environment RUSTFLAGS replaces the flags of .cargo/config.toml, without which the simulated
# world does not build.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

exec cargo test --workspace --locked -- --include-ignored
