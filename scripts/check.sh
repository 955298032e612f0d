#!/usr/bin/env bash
# Runs what CI runs: see make check.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
	local from=$SECONDS
	echo "== $*"
	"$@"
	echo "== $* took $((SECONDS - from)) s"
}

limit=${TIMEOUT:-15m}
step make lint
# All tests, also those that the tag of make test excludes.
step scripts/test.sh ./... -race -p "${PARALLEL:-4}" -parallel "${PARALLEL:-4}" -timeout "$limit"
step go test -C bench -timeout "$limit" ./...
step make outside TIMEOUT="$limit"
step make verifiers
step make alerts
step make telemetry
step make helm
step make model
# A fifth of the steps that make sim takes. The search for mutants has a separate limit.
step make sim STEPS=40000
# Once through each benchmark: that it runs, not how fast.
step make bench-go BENCHTIME=1x TIMEOUT="$limit"
echo "== all took $SECONDS s"
