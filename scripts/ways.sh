#!/usr/bin/env bash
# Runs the acceptance tests on each way to Redis that WAYS names, one after the other, and
# prints a row for each. RECORD=1 writes docs/reliability.md.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/page.sh ways docs/reliability.md
failed=0
for way in ${WAYS:-user tls sentinel cluster cluster-tls}; do
	echo "ways: $way"
	if ! NOTIFIER_TEST_WAY=$way WAYS_PAGE=$page go test -tags fault -count 1 -timeout 2h ./test/acceptance >"$work/$way.log" 2>&1; then
		failed=1
		cat "$work/$way.log"
	fi
done
rows
exit "$failed"
