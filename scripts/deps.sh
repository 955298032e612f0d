#!/usr/bin/env bash
# Installs the programs that the tests need on a machine with Go and make: redis-server, PostgreSQL, a C
# compiler for the race detector, Chromium for the tests of the pages and, where Docker runs, an image of
# Redis. It does nothing if all are installed.
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
if [ -z "${NOTIFIER_TEST_POSTGRES_URL:-}" ] && ! command -v postgres >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
	missing+=(postgresql)
fi
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
	missing+=(chromium fonts-liberation)
fi
# Chinese pages on screenshots need a font.
if command -v apt-get >/dev/null && ! fc-list :lang=zh 2>/dev/null | grep -q .; then
	missing+=(fonts-noto-cjk)
fi
if ! command -v "${CC:-gcc}" >/dev/null && ! command -v clang >/dev/null; then
	missing+=(gcc libc6-dev)
fi

if [ "${#missing[@]}" -gt 0 ]; then
	if command -v apt-get >/dev/null; then
		echo "deps: installing ${missing[*]}"
		root=()
		if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
		# Wait for a lock of another apt; a list that is too old to
		# find a package is read again.
		wait=(-o DPkg::Lock::Timeout=300)
		install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wait[@]}" "${missing[@]}")
		"${install[@]}" || { "${root[@]}" apt-get update -q "${wait[@]}" && "${install[@]}"; }
		# The packages start servers, which nothing here uses.
		for name in "${missing[@]}"; do
			"${root[@]}" service "$name" stop >/dev/null 2>&1 || true
		done
	elif command -v brew >/dev/null; then
		brew install "${missing[@]/redis-server/redis}"
	else
		echo "deps: install ${missing[*]} (Redis 7.0, PostgreSQL 13 or newer) and run this again" >&2
		exit 1
	fi
fi

if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
	scripts/test-image.sh
else
	echo "deps: Docker does not answer; the tests run on $(command -v redis-server || echo "$NOTIFIER_TEST_REDIS_URL")"
fi
