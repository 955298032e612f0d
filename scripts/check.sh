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

# A machine that is loaded is slow, not wrong: the limit is minutes away from what a package takes.
limit=${TIMEOUT:-25m}
step make lint
# All tests, including the ones that the tag of make test excludes.
step scripts/test.sh ./... -race -p "${PARALLEL:-4}" -parallel "${PARALLEL:-4}" -timeout "$limit"
# Every cell of the matrix of states and transitions, without the race detector; the tests above check a sample.
step go test ./internal/store -run 'TestMatrix$' -count 1 -matrix.every 1 -timeout "$limit"
# A fifth of the steps of make sim, without shrinking the failures of mutants. The two halves of the simulator run beside
# the steps below, each on one core: rapid's flags are global, so its tests cannot run in parallel.
logs=$(mktemp -d)
set -m # a process group for each, to end all of it if another step fails
make sim STEPS=40000 SHRINK=1ms SIMFLAGS='-run TestScriptsMatchModel' >"$logs/model" 2>&1 &
sims=$!
make sim STEPS=40000 SHRINK=1ms SIMFLAGS='-skip TestScriptsMatchModel' >"$logs/others" 2>&1 &
sims="$sims $!"
set +m
trap 'for sim in $sims; do kill -- -"$sim" 2>/dev/null || true; done; rm -rf "$logs"' EXIT
await_sim() {
	local code=0
	for sim in $sims; do wait "$sim" || code=$?; done
	cat "$logs/model" "$logs/others"
	return "$code"
}

step go test -C bench -timeout "$limit" ./...
step make outside TIMEOUT="$limit"
step make verifiers
step make alerts
step make telemetry
step make helm
step make model
# Once through each benchmark: that it runs, not how fast.
step make bench-go BENCHTIME=1x TIMEOUT="$limit"
step await_sim
echo "== all took $SECONDS s"
