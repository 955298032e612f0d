#!/usr/bin/env bash
# Installs what `make model` needs on a machine that has Go and make: spin, and a C
# compiler for the verifiers that it writes. It does nothing if they are there already.
set -euo pipefail

missing=()
command -v spin >/dev/null || missing+=(spin)
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

if command -v apt-get >/dev/null; then
	echo "model-deps: installing ${missing[*]}"
	root=()
	if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
	# Wait for a lock of another apt; a list that is too old to find a
	# package is read again.
	wait=(-o DPkg::Lock::Timeout=300)
	install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wait[@]}" "${missing[@]}")
	"${install[@]}" || { "${root[@]}" apt-get update -q "${wait[@]}" && "${install[@]}"; }
elif command -v brew >/dev/null; then
	brew install spin
else
	echo "model-deps: install ${missing[*]} and run this again" >&2
	exit 1
fi
