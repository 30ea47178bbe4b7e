# The commands of CONTRIBUTING.md. `just` lists them. just is optional: each is an ordinary command.

_list:
    @just --list --unsorted

# The fast lane: everything but browser, PostgreSQL and long sweeps.
test *ARGS:
    cargo test {{ARGS}}

# Every test; installs what it needs.
test-all:
    scripts/test.sh

# Format, lints and the fast lane, as before a commit.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo test

# All that must hold before a change is taken.
ci:
    .ci/run

# Counts the public items that each crate promises.
items:
    scripts/public-items.sh

# Sweeps seeds that are the commit's own: `just sweep 20000`.
sweep COUNT="2000":
    cargo run --release -p retrial-sim -- run --seeds "{{COUNT}}@$(git rev-parse HEAD)"

# The whole history of one seed or capsule.
repro SEED:
    cargo run --release -p retrial-sim -- repro {{SEED}}

# Makes a failing seed small, as a capsule with a test and a page in failures/.
shrink SEED:
    cargo run --release -p retrial-sim -- shrink {{SEED}} --into failures

# Plants the bugs of sim/mutants and writes docs/mutants.md. Takes hours.
mutants *ARGS:
    cargo xtask mutants {{ARGS}}

# Nodes of an older release and of this one in one simulated world.
releases OLDER *ARGS:
    scripts/two-releases.sh {{OLDER}} {{ARGS}}

# Fuzzes one target of crates/fuzz, or all, for so many seconds each.
fuzz TARGET="all" SECONDS="60":
    scripts/fuzz.sh {{TARGET}} {{SECONDS}}

# Three nodes on PostgreSQL under kill and load.
soak MINUTES="30":
    scripts/soak.sh {{MINUTES}}

# Lists the tests of docs/semantics.md anew, and the examples of docs/events.md.
pages:
    SEMANTICS=write cargo test -p retrial --test house
    EVENTS=write cargo test --test observe

# The pages as a book in target/book (needs mdbook).
book:
    mdbook build

# The pictures of the README, from real runs (needs Chromium and curl).
pictures:
    scripts/pictures.sh
