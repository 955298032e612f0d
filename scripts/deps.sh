#!/usr/bin/env bash
# Brings what the tests need on a fresh machine where Go and make are given: a
# redis-server, a C compiler for the race detector, and an image of Redis where
# Docker runs. Does nothing where they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
if ! command -v redis-server >/dev/null; then
	if [ -n "${NOTIFIER_TEST_REDIS_URL:-}" ]; then
		echo "deps: no redis-server; the tests that need one of their own will fail" >&2
	else
		missing+=(redis-server)
	fi
fi
if ! command -v "${CC:-gcc}" >/dev/null && ! command -v clang >/dev/null; then
	missing+=(gcc libc6-dev)
fi

if [ "${#missing[@]}" -gt 0 ]; then
	if command -v apt-get >/dev/null; then
		echo "deps: installing ${missing[*]}"
		root=()
		if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
		# A lock that another apt holds is waited for; a list that is too old to
		# find a package is read anew.
		wait=(-o DPkg::Lock::Timeout=300)
		install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wait[@]}" "${missing[@]}")
		"${install[@]}" || { "${root[@]}" apt-get update -q "${wait[@]}" && "${install[@]}"; }
		# The package starts a server on 6379, which nothing here uses.
		"${root[@]}" service redis-server stop >/dev/null 2>&1 || true
	elif command -v brew >/dev/null; then
		brew install redis
	else
		echo "deps: install ${missing[*]} (Redis 7.0 or newer) and run this again" >&2
		exit 1
	fi
fi

if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
	scripts/test-image.sh
else
	echo "deps: Docker does not answer; the tests run on $(command -v redis-server || echo "$NOTIFIER_TEST_REDIS_URL")"
fi
