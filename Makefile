# What may be done here; `make` alone lists it.
SHELL      := /bin/bash
.SHELLFLAGS := -o pipefail -ec
GO         ?= go
COUNT      := $(GO) run ./internal/tools/testcount
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# How long each benchmark runs; 1x is once.
BENCHTIME  ?= 1s
# A test that hangs must end before the job that runs it does.
TIMEOUT    ?= 10m

.DEFAULT_GOAL := help
.PHONY: help run build test race lint bench bench-peers bench-nightly bench-go fault cover doc deps generate

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## The service on an in-process Redis, with one route that logs
	NOTIFIER_ROUTES=demo NOTIFIER_ROUTE_DEMO_PREFIX=demo NOTIFIER_ROUTE_DEMO_TARGET=log NOTIFIER_LOG_FORMAT=console \
		$(GO) run ./cmd/notifier serve --embedded

build: ## bin/notifier
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/notifier ./cmd/notifier

deps: ## Brings what the tests need: redis-server, and an image of it where Docker runs
	@scripts/deps.sh

test: deps ## All tests, under the race detector
	$(GO) test -race -json -timeout $(TIMEOUT) ./... 2>&1 | $(COUNT)
	cd bench && $(GO) test -timeout $(TIMEOUT) ./...

race: test ## The same: tests never run without the race detector

lint: ## gofmt, go vet, staticcheck, govulncheck
	@scripts/lint.sh

bench: ## This service and its peers side by side, two minutes; scripts/bench-deps.sh brings the peers' servers
	cd bench && $(GO) run . -size=quick

bench-peers: bench ## The same

bench-nightly: ## All peers and all cases: hours
	cd bench && $(GO) run . -size=nightly

bench-go: deps ## Benchmarks of the packages; BENCHTIME=1x runs each once
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout $(TIMEOUT) ./...

fault: deps ## Kills, pauses, failovers and clusters: minutes, not seconds
	$(GO) test -tags fault -json -timeout 40m ./internal/acceptance/... 2>&1 | $(COUNT)

cover: deps ## Coverage, by function and in all
	$(GO) test -coverpkg ./internal/... -coverprofile cover.out -timeout $(TIMEOUT) ./...
	$(GO) tool cover -func cover.out | tail -n 1

doc: generate ## The package documentation, as text
	@for p in $$($(GO) list ./internal/... ./cmd/...); do echo "== $$p"; $(GO) doc "$$p" | sed -n '1,40p'; done

generate: ## Documents that are made from the code
	$(GO) generate ./...
