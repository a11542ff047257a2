# Sourced by tests/run and .ci/run: everything is built for this host as a named target ($host), static, so that the programs
# that are tested are linked as those in the images of nodes. Flags for a named target leave build scripts and macros alone,
# which cannot be static; and lints and builds for the same target share these, a minute and more of work.
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_BUILD_TARGET="$host"
export "CARGO_TARGET_$(printf %s "$host" | tr 'a-z-' 'A-Z_')_RUSTFLAGS=-C target-feature=+crt-static"

# What a build keeps for the next one is 13 GB of the 23 that everything takes from nothing; on a small disk the registry of a test
# then refuses pushes, as it must.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
