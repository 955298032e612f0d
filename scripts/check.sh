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
# A fifth of the steps that make sim takes, and nobody reads the stories of mutants here. The simulator keeps one core
# busy, so it runs beside the steps below.
log=$(mktemp)
set -m # a process group of its own, to end all of it if another step fails
make sim STEPS=40000 SHRINK=1ms >"$log" 2>&1 &
sim=$!
set +m
trap 'kill -- -$sim 2>/dev/null || true; rm -f "$log"' EXIT
await_sim() {
	local code=0
	wait "$sim" || code=$?
	cat "$log"
	return "$code"
}

step go test -C bench -timeout "$limit" ./...
step make outside TIMEOUT="$limit"
step make verifiers
step make alerts
step make telemetry
step make helm
step make model
step await_sim
# Once through each benchmark: that it runs, not how fast.
step make bench-go BENCHTIME=1x TIMEOUT="$limit"
echo "== all took $SECONDS s"
