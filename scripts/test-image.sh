#!/usr/bin/env bash
# Makes the image redis:local from the redis-server of this machine, so that
# dockertest needs no registry. It does nothing if the image exists already.
set -euo pipefail

image=redis:local
# Earlier ones had no shell, or a folder for data that only root could write.
if docker image inspect --format '{{.Config.Labels.data}}' "$image" 2>/dev/null | grep -q 999; then
	echo "image $image is there"
	exit 0
fi
server=$(command -v redis-server) || {
	echo "test-image.sh: no redis-server on PATH; install the package redis-server" >&2
	exit 1
}

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.tar"' EXIT

# Debian's redis-server is often a link to redis-check-rdb. The program's behaviour depends on its name, so
# the file is copied as redis-server.
install -D "$(readlink -f "$server")" "$root/usr/bin/redis-server"
cli=$(command -v redis-cli || true)
if [ -n "$cli" ]; then
	install -D "$(readlink -f "$cli")" "$root/usr/bin/redis-cli"
fi
# The compose files start some servers by a line of shell.
for tool in sh cat; do
	install -D "$(readlink -f "$(command -v "$tool")")" "$root/bin/$tool"
done
for program in "$root"/usr/bin/* "$root"/bin/*; do
	# Every library by the path under which the loader asks for it.
	ldd "$program" | grep -o '/[^ ]*' | sort -u | while read -r lib; do
		[ -e "$root$lib" ] || install -D "$(readlink -f "$lib")" "$root$lib"
	done
done
mkdir -p "$root/etc" "$root/tmp"
echo 'root:x:0:0:root:/:/bin/false' >"$root/etc/passwd"

# /data belongs to the user that the compose files name, as in the official image.
tar -C "$root" -cf "$root.tar" .
mkdir "$root/data"
tar -C "$root" --owner=999 --group=1000 -rf "$root.tar" ./data
docker import \
	--change 'ENTRYPOINT ["redis-server"]' --change 'EXPOSE 6379' --change 'WORKDIR /data' --change 'LABEL data=999' \
	"$root.tar" "$image" >/dev/null
echo "image $image imported from $server"
