#!/usr/bin/env bash
# Makes the image redis:local out of the redis-server of this machine, so that
# dockertest needs no registry. Does nothing where the image exists already.
set -euo pipefail

image=redis:local
if docker image inspect "$image" >/dev/null 2>&1; then
	echo "image $image is there"
	exit 0
fi
server=$(command -v redis-server) || {
	echo "test-image.sh: no redis-server on PATH; install the package redis-server" >&2
	exit 1
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Debian's redis-server is often a link, redis-check-rdb: the name it is called
# by decides what it does, so the file is copied under the name that serves.
install -D "$(readlink -f "$server")" "$root/usr/bin/redis-server"
cli=$(command -v redis-cli || true)
if [ -n "$cli" ]; then
	install -D "$(readlink -f "$cli")" "$root/usr/bin/redis-cli"
fi
for program in "$root"/usr/bin/*; do
	# Every library by the path under which the loader asks for it.
	ldd "$program" | grep -o '/[^ ]*' | sort -u | while read -r lib; do
		[ -e "$root$lib" ] || install -D "$(readlink -f "$lib")" "$root$lib"
	done
done
mkdir -p "$root/etc" "$root/tmp" "$root/data"
echo 'root:x:0:0:root:/:/bin/false' >"$root/etc/passwd"

tar -C "$root" -c . | docker import \
	--change 'ENTRYPOINT ["redis-server"]' --change 'EXPOSE 6379' --change 'WORKDIR /data' \
	- "$image" >/dev/null
echo "image $image imported from $server"
