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
# All tests: those of make test, and those that its tag leaves out.
step scripts/test.sh ./... -race -parallel "${PARALLEL:-4}" -timeout "$limit"
step go test -C bench -timeout "$limit" ./...
step make outside TIMEOUT="$limit"
step make verifiers
step make alerts
step make telemetry
step make helm
step make model
step make sim
# Once through each benchmark: that it runs, not how fast.
step make bench-go BENCHTIME=1x TIMEOUT="$limit"
echo "== all took $SECONDS s"
