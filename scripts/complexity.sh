#!/usr/bin/env bash
# Fails if a function has a cognitive complexity above 20. The functions in
# scripts/complexity.txt are exempt; one that no longer needs it fails too, so
# that the list only shrinks. Generated code does not count.
set -euo pipefail
cd "$(dirname "$0")/.."

most=20
over=$(go tool -modfile=tools/go.mod gocognit -over "$most" -test=false -ignore '_templ\.go$|/testdata/' . 2>/dev/null || true) # it fails where it finds some
over=$(awk '{sub(/:[0-9]+:[0-9]+$/, "", $NF); print $NF, $3}' <<<"$over" | sort -u)
exempt=$(sort -u scripts/complexity.txt)

new=$(comm -23 <(echo "$over") <(echo "$exempt"))
old=$(comm -13 <(echo "$over") <(echo "$exempt"))
if [ -n "$new" ]; then
	echo "a cognitive complexity above $most, split the function into steps:" >&2
	echo "$new" >&2
fi
if [ -n "$old" ]; then
	echo "a cognitive complexity of at most $most, remove the function from scripts/complexity.txt:" >&2
	echo "$old" >&2
fi
[ -z "$new$old" ]
