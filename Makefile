# `make` without a target lists the targets.
SHELL      := /bin/bash
.SHELLFLAGS := -o pipefail -ec
GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# For bench-pairs.
PAIRS ?= 5
RAW ?= pairs.json
# How long each benchmark runs; 1x is once.
BENCHTIME  ?= 1s
# How long each fuzz target runs.
FUZZTIME   ?= 1m
# How many steps the simulator takes, and where chance begins.
STEPS      ?= 200000
SEED       ?= 1
# How long the simulator shortens the story of each mutant that it finds.
SHRINK     ?= 1s
# How long `make chaos` makes faults; CHAOS passes more flags, as CHAOS='-chaos.seed=7'.
CHAOS_MINUTES ?= 3
CHAOS      ?=
# The size of `make load`; an hour is LOAD_MINUTES=60.
LOAD_MINUTES ?= 10
LOAD_RATE  ?= 3000
LOAD_PENDING ?= 1000000
# A test that hangs must end before the job that runs it does.
TIMEOUT    ?= 10m
# How many packages, and tests of a package, run at once: half of their time is waiting.
PARALLEL   ?= 4

.DEFAULT_GOAL := help
.PHONY: help run build test check race lint bench bench-worker bench-pairs bench-age bench-nightly bench-go fault history history-load reshard-load timetravel chaos load punctuality outside verifiers alerts telemetry helm distributed ways fuzz model sim cover doc deps generate release

help: ## Prints this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Starts the service with a Redis of its own and one route that logs
	NOTIFIER_ROUTES=demo NOTIFIER_ROUTE_DEMO_PREFIX=demo NOTIFIER_ROUTE_DEMO_TARGET=log NOTIFIER_LOG_FORMAT=console \
		$(GO) run ./cmd/notifier serve --embedded

build: ## Builds bin/notifier
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/notifier ./cmd/notifier

release: ## With VERSION=v1.2.3: builds static programs, checksums and an image in dist/
	@scripts/release.sh '$(VERSION)'

deps: ## Installs what the tests need: redis-server, PostgreSQL, Chromium, and an image of Redis where Docker runs
	@scripts/deps.sh

test: deps ## Runs the tests under the race detector but those that take long or need a browser, a database or a built program
	scripts/test.sh ./... -race -tags quick -p $(PARALLEL) -parallel $(PARALLEL) -timeout $(TIMEOUT)

check: deps ## Runs what CI runs, within 25 minutes: lint, all tests, generated clients, alerts, the model, the simulator, each benchmark once
	@scripts/check.sh

race: test ## Runs the same: tests never run without the race detector

lint: ## Runs gofmt, go vet, staticcheck, gocognit and govulncheck
	@scripts/lint.sh

bench: ## Measures this service beside others, in three minutes; scripts/bench-deps.sh installs their servers
	cd bench && $(GO) run . -size=quick

bench-worker: ## Measures package worker beside asynq and River, in eight minutes, and writes the table of docs/worker.md
	cd bench && $(GO) run . -size=worker

bench-pairs: ## With OLD=path NEW=path: compares two built programs in PAIRS=5 pairs, in seven minutes; raw values in RAW=pairs.json
	cd bench && $(GO) run . pairs -old '$(abspath $(OLD))' -new '$(abspath $(NEW))' -n $(PAIRS) -raw '$(abspath $(RAW))'

bench-age: ## Prints the revision of the published benchmarks and how old they are
	@cd bench && $(GO) run . -age

bench-nightly: ## Measures all services in all cases, which takes hours
	cd bench && $(GO) run . -size=nightly

bench-go: deps ## Runs the benchmarks of the packages; BENCHTIME=1x runs each once
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout $(TIMEOUT) ./...

fault: ## Tests with kills, pauses, failovers, clusters and 100,000 simulated days, which takes minutes
	@scripts/chaos-deps.sh
	scripts/test.sh "./test/acceptance/... ./test/deploy/... ./test/timetravel/... ./internal/fleet/..." -tags fault -timeout 40m

timetravel: ## Simulates 100,000 days of ladders in virtual time, which takes minutes
	$(GO) test -tags fault -count 1 -timeout 60m -v -run LadderDays ./test/timetravel

chaos: ## Lets everything go wrong for CHAOS_MINUTES while a ledger counts lost, early and duplicate deliveries
	@scripts/chaos-deps.sh
	$(GO) test -tags chaos -count 1 -timeout 12h -v -run 'TestChaos|TestMutant|TestSequences' ./test/chaos -chaos.minutes=$(CHAOS_MINUTES) $(CHAOS)

load: deps ## Runs LOAD_RATE notices a second among LOAD_PENDING for LOAD_MINUTES, then three times what fits; RECORD=1 writes docs
	$(GO) test -tags load -count 1 -timeout 12h -v -run TestLoad ./test/load -load.minutes=$(LOAD_MINUTES) -load.rate=$(LOAD_RATE) -load.pending=$(LOAD_PENDING)

punctuality: deps ## Measures lateness at two instances for LOAD_MINUTES at 1,000 notices a second, while instances are killed; RECORD=1 writes docs
	$(GO) test -tags load -count 1 -timeout 12h -v -run TestPunctuality ./test/load -load.minutes=$(LOAD_MINUTES) -load.rate=1000

outside: ## Makes clients from openapi.json with two generators, and calls a running service with each
	cd test/outside && mkdir -p testdata/oapicodegen && $(GO) generate ./... && $(GO) vet ./... && $(GO) test -count 1 -timeout $(TIMEOUT) ./...

verifiers: deps ## Checks signatures of real callbacks with libraries of others and the code in docs/examples, and the change of keys under load
	@scripts/verifiers-deps.sh
	cd test/verifiers && $(GO) vet ./... && $(GO) test -count 1 -timeout $(TIMEOUT) ./...

alerts: deps ## Checks the alerts with promtool, and provokes some with running instances; promtool takes minutes to build once
	cd test/alerts && $(GO) tool promtool --version >/dev/null # builds it, outside the limit of the tests
	cd test/alerts && $(GO) vet ./... && $(GO) test -count 1 -timeout $(TIMEOUT) ./...

telemetry: deps ## Checks traces and metrics with the OpenTelemetry Collector's receiver; RECORD=1 writes docs/records/trace.json
	cd test/telemetry && $(GO) vet ./... && $(GO) test -count 1 -timeout $(TIMEOUT) ./...

helm: ## Checks the Helm chart with Helm's engine and linter, and decodes what it renders
	cd test/helm && $(GO) vet ./... && $(GO) test -count 1 -timeout $(TIMEOUT) ./...

distributed: deps ## Measures every fault of many servers, in ten minutes, DISTRIBUTED=nightly in 25; RECORD=1 writes docs/records/faults.txt
	@scripts/distributed.sh

ways: deps ## Runs the acceptance tests as the user of deploy/users.acl, on TLS, Sentinel and a cluster, each about as long as fault; WAYS names some; RECORD=1 writes the record
	@scripts/chaos-deps.sh
	@scripts/ways.sh

fuzz: ## Sends what nobody should send to every reader of input, each for FUZZTIME
	@scripts/fuzz.sh '$(FUZZTIME)'

model: ## Checks the model with spin, and that each mutant of it fails; RECORD=1 writes the record
	@scripts/model-deps.sh
	$(GO) run ./model

history: deps ## Measures searches in a history of 10,000,000 rows, or HISTORY_ROWS, which takes minutes and 7 GB of disk
	$(GO) test -tags measure -run TestMeasure -v -timeout 2h ./internal/history

history-load: deps ## Measures what a history costs, how fast it catches up, and compares 1,000,000 rows, in some 15 minutes; RECORD=1 writes docs/history.md
	$(GO) test -tags measure -run TestMeasureHistory -count 1 -v -timeout 3h ./internal/engine

reshard-load: deps ## Measures how 1,000,000 notices move to other shards under a load; RECORD=1 writes docs/upgrade.md
	$(GO) test -tags measure -run TestMeasureReshard -count 1 -v -timeout 1h ./internal/engine

sim: deps ## Runs the scripts with many virtual instances, STEPS steps from SEED on (0 = anywhere); RECORD=1 writes the record
	$(GO) test -count 1 -timeout 60m -v ./test/sim $(SIMFLAGS) -sim.steps=$(STEPS) -sim.seed=$(SEED) -sim.mutants=1000 -sim.shrink=$(SHRINK) | grep -v 'rapid\] draw\|rapid\] OK'

cover: deps ## Shows the test coverage, by function and in total
	$(GO) test -coverpkg ./internal/... -coverprofile cover.out -timeout $(TIMEOUT) ./...
	$(GO) tool cover -func cover.out | tail -n 1

doc: generate ## Prints the package documentation
	@for p in $$($(GO) list ./cmd/... ./client/... ./worker/... ./internal/... ./test/...); do echo "== $$p"; $(GO) doc "$$p" | sed -n '1,40p'; done

generate: ## Writes the documents that are made from the code, and the Go code of templates
	$(GO) generate ./...
