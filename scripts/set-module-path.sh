#!/usr/bin/env bash
# Changes the module's path, to publish a copy under another one:
#
#     scripts/set-module-path.sh example.com/team/notifier
#
# It changes go.mod of this and the nested modules, the imports, and the package paths in scripts, workflows
# and documents. Review and commit the result.
set -euo pipefail
cd "$(dirname "$0")/.."

new=${1:-}
old=$(go list -m)
if ! [[ "$new" =~ ^[a-z0-9.-]+\.[a-z]+(/[A-Za-z0-9._~-]+)+$ ]]; then
	echo "usage: scripts/set-module-path.sh example.com/team/notifier (a host with a dot, and a path)" >&2
	exit 2
fi
if [ "$new" = "$old" ]; then
	echo "the module's path is $old already"
	exit 0
fi

# Every text file of the repository, with or without git.
mapfile -d '' files < <(git ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -type f -not -path './.git/*' -print0)
texts=()
for f in "${files[@]}"; do
	case "$f" in
	CHANGELOG.md | scripts/set-module-path.sh) ;; # they name the old path on purpose
	*.go | *go.mod | *.md | *.sh | *.yaml | *.yml | *Makefile | *Dockerfile | *.conf) [ -f "$f" ] && texts+=("$f") ;;
	esac
done

# A package is the module's path followed by a folder. "notifier/" followed by a version, as in a User-Agent,
# is not a package.
folders=$(for d in */; do printf '%s|' "${d%/}"; done)
OLD=$old NEW=$new FOLDERS=${folders%|} perl -pi -e '
	s{(?<![\w./-])\Q$ENV{OLD}\E/(?=(?:$ENV{FOLDERS})\b)}{$ENV{NEW}/}g;
	s{^((?://)?\s*(?:module|require|replace)\s+)\Q$ENV{OLD}\E(?=\s|$)}{$1$ENV{NEW}};
	s{^(\s+)\Q$ENV{OLD}\E(?= v\d)}{$1$ENV{NEW}} if $ARGV =~ /go\.mod$/;
' "${texts[@]}"

# The client's comment says how a module without a host is imported; one with a
# host is fetched.
NEW=$new perl -0pi -e 's{(// # Importing it\n//\n).*?(?=package client\n)}{$1//\tgo get $ENV{NEW}\n}s' client/doc.go
# Until then the alerts' links can only be paths within a checkout.
NEW=$new perl -pi -e 's{(runbook_url: )docs/}{$1https://$ENV{NEW}/blob/main/docs/}' deploy/prometheus/*.yaml
gofmt -w $(printf '%s\n' "${texts[@]}" | grep '\.go$')

[ "$(go list -m)" = "$new" ] || { echo "set-module-path.sh: go.mod still says $(go list -m)" >&2; exit 1; }
echo "the module is $new; go build ./... and make test, then commit"
