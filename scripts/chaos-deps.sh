#!/usr/bin/env bash
# Installs faketime, which the chaos run and a test of `make fault` need in addition to the packages of
# deps.sh. Without it the run does not change Redis's clock, and prints that.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh
if ! ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 && command -v apt-get >/dev/null; then
	root=()
	if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
	install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 faketime)
	"${install[@]}" || { "${root[@]}" apt-get update -q && "${install[@]}"; }
fi
