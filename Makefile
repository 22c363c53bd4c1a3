# Two commands on a fresh machine: `make run` and `make test`.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help run build console test check fuzz interop interop-event-loops bench simulate setup setup-test

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 22

run: setup ## Build, make a demo database, start the server in the foreground
	@scripts/run-demo

build: setup ## Build the release binary: target/release/tandem
	@scripts/console --if-npm
	cargo build --release --package tandem

console: ## Build the page of `tandem lab controller`; the next build embeds it
	scripts/console

test: setup-test check ## Everything that CI runs: lints, tests, simulator seeds, real peers, fuzzing
	cargo test --workspace --no-fail-fast
	TANDEM_INTEROP_EVENT_LOOPS="poll io_uring" scripts/interop-event-loops --short
	scripts/fuzz 60

check: setup ## Formatting, lints, licences; compiles everything, fuzz targets included
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target -- --deny warnings
	scripts/deny

fuzz: setup-test ## Run every fuzz target for ten minutes in all
	scripts/fuzz 600

interop: setup-test ## Calls with sipp, sipsak, baresip, linphone, browsers, Kamailio and tshark
	scripts/interop

interop-event-loops: setup-test ## The same on each event loop: epoll, poll, io_uring
	scripts/interop-event-loops

simulate: setup ## Run simulator seeds for ten minutes
	cargo run --release --package sip-simulator --example simulate -- --minutes 10

bench: setup ## Everything that is measured, beside Kamailio, in some 75 minutes: bench/report/report.md
	scripts/bench

setup:
	@scripts/setup build

setup-test:
	@scripts/setup test
