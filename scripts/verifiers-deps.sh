#!/usr/bin/env bash
# Installs the languages in which `make verifiers` runs the code of docs/examples, on a
# machine that has Go and make. It does nothing if they are there already.
set -euo pipefail

missing=()
command -v python3 >/dev/null || missing+=(python3)
python3 -c 'import cryptography' 2>/dev/null || missing+=(python3-cryptography)
# The examples of docs/examples use curl where PHP is installed.
php -r 'exit(function_exists("curl_init") ? 0 : 1);' 2>/dev/null || missing+=(php-cli php-curl)
command -v node >/dev/null || missing+=(nodejs)
command -v javac >/dev/null || missing+=(default-jdk-headless)
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

if command -v apt-get >/dev/null; then
	echo "verifiers-deps: installing ${missing[*]}"
	root=()
	if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
	# Wait for a lock of another apt; a list that is too old to find a
	# package is read again.
	wait=(-o DPkg::Lock::Timeout=300)
	install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wait[@]}" "${missing[@]}")
	"${install[@]}" || { "${root[@]}" apt-get update -q "${wait[@]}" && "${install[@]}"; }
elif command -v brew >/dev/null; then
	brew install python php node openjdk
else
	echo "verifiers-deps: install ${missing[*]} and run this again" >&2
	exit 1
fi
