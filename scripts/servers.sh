#!/usr/bin/env bash
# Prints the paths of further Redis and Valkey servers for the tests: servers on PATH, and servers of newer
# Debian releases. The latter are unpacked below a directory, together with their libraries, and not
# installed.
#
#	scripts/servers.sh DIRECTORY
#
# Missing servers are listed on standard error.
set -euo pipefail
dir=${1:?usage: scripts/servers.sh DIRECTORY}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if command -v valkey-server >/dev/null; then command -v valkey-server; fi
missing() {
	echo "servers: missing: $1: $2" >&2
	exit 0
}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
suite=trixie
if ! command -v apt-get >/dev/null || [ ! -e "$keyring" ]; then
	missing "Redis 8, Valkey 8" "they are taken from Debian $suite, and this is no Debian"
fi

apt=$dir/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$dir/$suite"
echo "deb [signed-by=$keyring] http://deb.debian.org/debian $suite main" >"$apt/sources.list"
options=(-q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$apt/lists"
	-o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
packages=(redis-server redis-tools valkey-server valkey-tools
	libc6 libatomic1 libcap2 libgcc-s1 libgcrypt20 libgpg-error0 libjemalloc2 liblz4-1 liblzf1 liblzma5 libssl3t64 libstdc++6 libsystemd0 libzstd1 zlib1g)
if [ ! -e "$dir/$suite/done" ]; then
	apt-get "${options[@]}" update >&2 || missing "Redis 8, Valkey 8" "the packages of Debian $suite cannot be read"
	(cd "$apt/cache" && apt-get "${options[@]}" download "${packages[@]/%//$suite}") >&2 ||
		missing "Redis 8, Valkey 8" "the packages of Debian $suite cannot be fetched"
	for package in "$apt"/cache/*.deb; do
		dpkg-deb -x "$package" "$dir/$suite"
	done
	touch "$dir/$suite/done"
fi
loader=$(find "$dir/$suite/usr/lib" -name 'ld-linux-*.so.*' | head -n 1)
for name in redis-server valkey-server; do
	# They are of a newer system than this one: its loader and its libraries run them.
	cat >"$dir/$name" <<-END
		#!/bin/sh
		exec '$loader' --argv0 $name --library-path '${loader%/*}' '$dir/$suite/usr/bin/$name' "\$@"
	END
	chmod +x "$dir/$name"
	if version=$("$dir/$name" --version 2>&1); then
		echo "servers: $version" >&2
		echo "$dir/$name"
	else
		echo "servers: missing: $name of Debian $suite does not run here: $version" >&2
	fi
done
echo "servers: missing: Redis 6.2, 7.2 and 7.4, and Valkey 7.2: name them by SERVERS='/path …'" >&2
