# The commands of the house. `make` alone is what has to pass before a commit.
# Whatever needs a tool that rustup and Debian do not have says so.

CARGO ?= cargo
TARGET ?= query
SECS ?= 60
SEEDS ?= 256

.PHONY: default fmt fmt-check clippy test tidy it sim fuzz doc deny generate generated configs peers bench up ci

default: fmt-check clippy test

# Formats everything.
fmt:
	$(CARGO) fmt --all

# Fails if something is not formatted.
fmt-check:
	$(CARGO) fmt --all --check

# Every lint, everywhere, as errors.
clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Tests that need no privileges and no packages.
test:
	$(CARGO) test --workspace --locked

# The rules of the house alone: modules, crates, sizes, words. Seconds.
tidy:
	$(CARGO) test --locked -p tidy

# Everything, end to end too: installs the Debian packages it needs and uses network namespaces (root, or sudo).
it:
	tests/run

# Seeded simulations of the cores, SEEDS of each: make sim SEEDS=4096. A failure prints its seed: SIM_SEED=17 make sim.
sim:
	SIM_SEEDS=$(SEEDS) $(CARGO) test --workspace --locked --release -- sim

# Coverage-guided fuzzing of one target: make fuzz TARGET=zone SECS=600. The targets are the features of fuzz-bodies.
fuzz:
	tests/fuzz/run $(TARGET) $(SECS)

# The documentation of every item, private ones too.
doc:
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --no-deps --document-private-items --locked

# Licences, advisories and banned crates; needs `cargo install cargo-deny --locked`.
deny:
	$(CARGO) deny --locked check

# Documents that programs write. A generator adds its command to `generate` and its files to GENERATED.
GENERATED = docs/reference docs/man deploy/config
generate:
	$(CARGO) run --quiet --locked -p generated

# Fails if a generated document is not what its program writes.
generated: generate
	git diff --exit-code -- $(GENERATED)

# Every configuration template through the `check` of its service.
configs:
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked -p tests --test it -- every_template

# The same questions about random zones to dns-authd, Knot and NSD, as far as those are installed.
peers:
	$(CARGO) build --locked -p dns-authd
	tests/peers/answers.py --seed $(or $(SEED),1)

# The services beside their peers; needs an otherwise idle machine with two cores or more, and root.
bench:
	tests/bench/dns
	tests/bench/lb
	tests/bench/time

# A whole site on this machine, on loopback, until Ctrl-C.
up:
	$(CARGO) run --release --bin outpost -- up

# What the continuous integration runs.
ci:
	.ci/run
