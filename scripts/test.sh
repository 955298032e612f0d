#!/usr/bin/env bash
# Runs tests: one line for each package as it ends, the output of failed tests, and at
# last one line that counts packages and tests.
#
#   scripts/test.sh PACKAGES [FLAGS of go test…]
#
# tools/go.mod pins gotestsum, which reads what go test writes. make lint runs vet. The
# race detector leaves out modernc.org, which is SQLite translated to Go: instrumenting it
# costs time and observes no memory of this project.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$1
shift
# shellcheck disable=SC2086 # the packages are several words
total=$(go list $packages | wc -l)
events=$(mktemp)
trap 'rm -f "$events"' EXIT

# Numbers the line of each package. A loop, because mawk would hold the lines back.
numbered() {
	local n=0 line
	while IFS= read -r line; do
		if [[ $line =~ ^(PASS|FAIL|SKIP|EMPTY)\ +[^\ ]+(\ |$) ]]; then
			n=$((n + 1))
			line="[$n/$total] $line"
		fi
		printf '%s\n' "$line"
	done
}

code=0
go tool -modfile=tools/go.mod gotestsum --format pkgname-and-test-fails --format-icons text --hide-summary output --jsonfile-timing-events "$events" \
	--packages "$packages" -- -vet=off -gcflags=modernc.org/...=-race=false "$@" 2>&1 |
	numbered || code=$?

# A line without a test is a package's.
ended() { grep -c "\"Action\":\"$1\",\"Package\":\"[^\"]*\"$2" "$events" || true; }
echo "packages: $(ended pass ',"Elapsed"') passed, $(ended fail ',"Elapsed"') failed; tests: $(ended pass ',"Test"') passed, $(ended fail ',"Test"') failed, $(ended skip ',"Test"') skipped; $SECONDS s"
exit "$code"
