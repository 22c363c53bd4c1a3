# Two commands on a fresh machine: `make run` and `make test`.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Crates for programs of other people.
LIBRARIES := sip-message sip-transport sip-transaction sip-resolver sip-runtime sip-stack

.PHONY: help run build pgo console package test-package test check fuzz interop interop-event-loops interop-features bench capacity resilience resilience-kamailio upgrade-test simulate setup setup-test setup-bench setup-package setup-test-package kubernetes

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 22

run: setup ## Build, create a demo exchange, start the server in the foreground
	@scripts/run-demo

build: setup ## Build the release binary: target/release/tandem
	@scripts/console --if-npm
	cargo build --release --package tandem

console: ## Build the web page of `tandem lab controller`; the next build embeds it
	scripts/console

package: setup-package ## Build the Debian package and its debug symbols: target/debian
	@scripts/package

test-package: package setup-test-package ## Install the package in a clean system, register a phone, remove it; asks for root
	@scripts/test-package

test: setup-test check ## Run what CI runs: lints, tests, simulator seeds, real peers, fuzzing
	cargo test --workspace --no-fail-fast
	INTEROP_FEATURES=all INTEROP_EVENT_LOOPS="poll io_uring" scripts/interop-event-loops --short
	scripts/fuzz 60

check: setup ## Check formatting, lints, licences, packages and links; compile everything, including fuzz targets
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target -- --deny warnings
	scripts/deny
	cargo package --offline --no-verify --allow-dirty --quiet $(LIBRARIES:%=--package %)
	scripts/docs check
	scripts/chart

.PHONY: docs
docs: setup ## Build the documentation site: target/book
	scripts/docs

fuzz: setup-test ## Run all fuzz targets, ten minutes in total
	scripts/fuzz 600

interop: setup-test ## Test against sipp, sipsak, baresip, linphone, browsers, Kamailio and tshark
	scripts/interop

interop-event-loops: setup-test ## Run `interop` on each event loop: epoll, poll, io_uring
	scripts/interop-event-loops

interop-features: setup-test ## Run `interop` with rules, prefixes, limits and records behind every test
	INTEROP_FEATURES=all scripts/interop --no-fail-fast

resilience: setup-test ## Kill every process of a fleet in turn for ten minutes, under 200 calls per second; asks for root
	cargo build --release --package tandem
	scripts/resilience

resilience-kamailio: setup-test ## The same kills for a fleet of Kamailio with its dispatcher, for comparison; asks for root
	cargo build --release --package tandem
	scripts/resilience kamailio

upgrade-test: setup-test ## Upgrade a fleet of an older revision (REVISION) to this one, process by process, during calls
	scripts/upgrade-test $(REVISION)

kubernetes: ## Install the chart in a cluster and make calls while it is disturbed; docs/kubernetes.md has the variables
	@deploy/kubernetes/try

simulate: setup ## Run simulator seeds for ten minutes
	cargo run --release --package sip-simulator --example simulate -- --minutes 7
	cargo run --release --package sip-simulator --example simulate -- --fleet --minutes 3

pgo: setup-bench ## Build the program of the packages, optimised with a profile of the laboratory's traffic: target/pgo/tandem
	@scripts/pgo

bench: setup-bench ## Measure Tandem and Kamailio, about 80 minutes; writes bench/report/report.md
	scripts/bench

capacity: setup-bench ## Measure Tandem with 60,000 calls, a million subscribers, and a million bindings of two nodes, about 40 minutes
	scripts/capacity

setup:
	@scripts/setup build

setup-test:
	@scripts/setup test

setup-bench:
	@scripts/setup bench

setup-package:
	@scripts/setup package

setup-test-package:
	@scripts/setup test-package
