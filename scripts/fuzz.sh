#!/usr/bin/env bash
# Runs every fuzz target of the module for a time: scripts/fuzz.sh 1m. An input that makes a target fail is
# stored in testdata/fuzz of its package, where `go test` finds it from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-1m}
failed=()
while IFS=: read -r file name; do
	package=./$(dirname "$file")
	echo "== $package $name, $time"
	go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$time" || failed+=("$package $name")
done < <(grep -rhoE --include='*_test.go' -H '^func Fuzz[A-Za-z0-9]+' internal client cmd | sed 's/func //')
if [ "${#failed[@]}" -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
