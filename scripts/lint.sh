#!/usr/bin/env bash
# Runs gofmt, go vet, staticcheck, gocognit and govulncheck. tools/go.mod pins the versions of
# the checkers; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l $(git ls-files --cached --others --exclude-standard '*.go' 2>/dev/null || find . -name '*.go'))
if [ -n "$unformatted" ]; then
	echo "gofmt -w is due for:" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet ./...
go vet -tags quick ./...
go vet -tags fault,measure,chaos,load ./...
(cd bench && go vet -tags peers ./...)
# staticcheck.conf says which checks are on.
go tool -modfile=tools/go.mod staticcheck -tags fault,measure,chaos,load ./...
(cd bench && go tool -modfile=../tools/go.mod staticcheck -tags peers ./...)
scripts/complexity.sh

# The database of vulnerabilities is on the network and changes at any time, so
# findings are shown and do not fail a commit that has not changed.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if timeout 300 go tool -modfile=tools/go.mod govulncheck ./... >"$log" 2>&1; then
	tail -n 1 "$log"
elif grep -q '^Vulnerability #' "$log"; then
	cat "$log"
else
	echo "govulncheck: its database was not reached; not checked ($(tail -n 1 "$log" | cut -c 1-120))"
fi
