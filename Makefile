# `make help` lists the targets. What they need: Rust, a C compiler, Python 3 with venv, make.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
LOCAL_AWS := localstack/local-aws
# Cases that the runners read instead of the project's own: `make cases CASES_DIR=../other/cases`
CASES_DIR ?=
# `make demo ARGS="--svg picture.svg"`
ARGS ?=

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-16s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## 30 messages through two Lambda functions and a rate-limited provider, live, in about two minutes (ARGS="--help")
	@$(CARGO) build -p frigg-tests -p frigg-worker --features frigg-worker/http-worker --bin demo --bin frigg-worker
	@target=$$($(CARGO) metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'); \
		exec "$$target/debug/demo" $(ARGS)

.PHONY: herd
herd: ## 20 workers and 600 messages on 10 calls a second, in five modes: the table of docs/pacing.md, in seven minutes
	@$(CARGO) build -p frigg-tests --bin herd --bin herd-worker
	@target=$$($(CARGO) metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'); \
		exec "$$target/debug/herd" --svg docs/herd.svg $(ARGS)

.PHONY: test
test: ## Every test; the emulators are started and stopped by the tests
	@tests/run

.PHONY: lint
lint: ## Formatting, clippy and the docs, warnings being errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --all-features

.PHONY: fmt
fmt: ## Format everything
	$(CARGO) fmt --all

# The runners are the tests whose names begin with `cases_`, in every package. All of them run, whatever fails; cargo's
# own lines are left out, and its exit status is kept.
.PHONY: cases
cases: ## Run every runner of case files (CASES_DIR=… for other cases than the project's own)
	@$(CARGO) test --workspace --all-features --tests --no-run --quiet
	@$(if $(CASES_DIR),CASES_DIR='$(abspath $(CASES_DIR))') \
		$(CARGO) test --workspace --all-features --tests --no-fail-fast --quiet -- cases_ --nocapture --test-threads=1 2>&1 \
		| sed -uE -e 's/^[.F]+( [0-9]+\/[0-9]+)?$$//' -e 's/^\.+cases /cases /' \
			-e '/^(running [0-9]+ tests?|test result: .*|failures:)?$$/d'

SCENARIOS ?= 1000000
SEED ?= 0
TRACE ?=
.PHONY: sim
sim: ## Simulate queue, scheduler, crashes and providers around the real pipe (SCENARIOS=1000000 SEED=0, or TRACE=seed)
	@$(CARGO) run --quiet -p frigg-sim -- $(if $(TRACE),--trace $(TRACE),--scenarios $(SCENARIOS) --seed $(SEED))

FUZZ_SECONDS ?= 300
.PHONY: fuzz
fuzz: ## Spoiled Lambda events through the batch (FUZZ_SECONDS=300, FUZZ_SEED=1)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --quiet -p frigg-sim --test fuzz -- --nocapture

# Whole programs beside hand-written ones, then the parts. BENCH_ARGS="--effort 0.2" is a quick look; --help says more.
BENCH_ARGS ?=
.PHONY: bench
bench: ## Measure workers beside hand-written ones, and the parts (Criterion); writes bench/RESULTS.md
	$(CARGO) build --release -p frigg-bench -p frigg-worker --features frigg-worker/http-worker
	$(CARGO) bench -p frigg-core -p frigg-worker -p frigg-requester --benches
	@target=$$($(CARGO) metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'); \
		exec "$$target/release/bench" --write bench/RESULTS.md $(BENCH_ARGS)

.PHONY: local-up
local-up: ## Start local AWS (Docker where an engine answers, else without) and print what to export
	@$(LOCAL_AWS) up

.PHONY: local-down
local-down: ## Stop local AWS
	@$(LOCAL_AWS) down

# In Docker where an engine answers; else the tests start LocalStack as a process of the host, each on its own port.
.PHONY: test-localstack
test-localstack: ## The tests of the tiers against LocalStack
	@if docker info >/dev/null 2>&1; then \
		$(LOCAL_AWS) down; \
		trap '$(LOCAL_AWS) down' EXIT; \
		eval "$$($(LOCAL_AWS) up --flavour docker)"; \
	else \
		unset AWS_ENDPOINT_URL; \
	fi; \
	export FRIGG_TEST_FLAVOUR=localstack; \
	$(CARGO) test --workspace --test emulator; \
	$(CARGO) test --workspace --test end_to_end -- tier_

# ---- AWS. WORKER is the program, SERVICE and STAGE make the stack's name; infra/stages/<stage>.json holds the template's
# parameters. Credentials and region are those of the AWS CLI. YES=1 goes on without asking. More: infra/README.md
STAGE ?= dev
SERVICE ?= frigg
WORKER ?= contact_sync
STACK = infra/stack --service $(SERVICE) --worker $(WORKER)

.PHONY: package
package: ## Zip files of the worker for Lambda, arm64 and x86_64 (WORKER=contact_sync)
	@$(STACK) package

.PHONY: deploy
deploy: ## Package the worker and deploy its stack to AWS (STAGE=dev)
	@$(STACK) deploy $(STAGE)

.PHONY: deploy-code
deploy-code: ## New code for the deployed function, quickly (STAGE=dev)
	@$(STACK) deploy-code $(STAGE)

.PHONY: destroy
destroy: ## Delete the stack; refuses while messages wait in it (STAGE=dev)
	@$(STACK) destroy $(STAGE)

.PHONY: doctor
doctor: ## What of the deployed stack would lose messages (STAGE=dev)
	@$(CARGO) run --quiet -p frigg-cli -- doctor --stack $(SERVICE)-$(STAGE)

.PHONY: verify-aws
verify-aws: ## Send one limited message per way back through stacks made for it, check, report, delete them
	@infra/stack verify
