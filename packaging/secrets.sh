#!/usr/bin/env bash
# Makes the secrets of compose.yaml, where there are none yet.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p secrets
umask 077
# Compose mounts the files as they are, and the nodes' user is not their owner.
make() { [ -e "secrets/$1" ] || (printf '%s' "$2" >"secrets/$1" && chmod 0644 "secrets/$1"); }
random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
chmod 0700 secrets
make password "$(random)"
make token "$(random)"
make store "postgres://retrial:$(cat secrets/password)@postgres/retrial?sslmode=disable"
