#!/usr/bin/env bash
# Runs tests: one line for each package as it ends, the output of failed tests, and at
# last one line that counts packages and tests.
#
#   scripts/test.sh PACKAGES [FLAGS of go test…]
#
# tools/go.mod pins gotestsum, which reads what go test writes.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$1
shift
# shellcheck disable=SC2086 # the packages are several words
total=$(go list $packages | wc -l)
events=$(mktemp)
trap 'rm -f "$events"' EXIT

code=0
go tool -modfile=tools/go.mod gotestsum --format pkgname-and-test-fails --format-icons text --hide-summary output --jsonfile-timing-events "$events" \
	--packages "$packages" -- "$@" 2>&1 |
	awk -v total="$total" '/^(PASS|FAIL|SKIP|EMPTY) +[^ ]+( |$)/ { printf "[%d/%d] ", ++n, total } { print; fflush() }' || code=$?

# A line without a test is a package's.
ended() { grep -c "\"Action\":\"$1\",\"Package\":\"[^\"]*\"$2" "$events" || true; }
echo "packages: $(ended pass ',"Elapsed"') passed, $(ended fail ',"Elapsed"') failed; tests: $(ended pass ',"Test"') passed, $(ended fail ',"Test"') failed, $(ended skip ',"Test"') skipped; $SECONDS s"
exit "$code"
