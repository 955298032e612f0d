#!/usr/bin/env bash
# Builds the base images of Dockerfile and deploy/compose.yaml from programs on this machine, for machines
# that cannot reach a registry:
#
#     notifier-build:local  Go, a shell, certificates and the modules in go.mod
#     redis:local           see test-image.sh
#
# Then:
#     docker build --build-arg BUILD_IMAGE=notifier-build:local -t notifier:local .
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/test-image.sh
image=notifier-build:local
if docker image inspect "$image" >/dev/null 2>&1 && [ "${1:-}" != --force ]; then
	echo "image $image is there (--force makes it anew)"
	exit 0
fi

root=$(mktemp -d)
trap 'chmod -R u+w "$root"; rm -rf "$root"' EXIT

# A program with every library that the loader asks for, by the path it asks for.
program() {
	install -D "$(readlink -f "$1")" "$root$2"
	{ ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | sort -u || true; } | while read -r lib; do
		[ -e "$root$lib" ] || install -D "$(readlink -f "$lib")" "$root$lib"
	done
}
program /bin/sh /bin/sh
program /bin/mkdir /bin/mkdir

goroot=$(go env GOROOT)
mkdir -p "$root/usr/local" "$root/tmp" "$root/etc" "$root/root" "$root/go-proxy"
chmod 1777 "$root/tmp"
cp -a "$goroot" "$root/usr/local/go"
rm -rf "$root/usr/local/go/test" "$root/usr/local/go/doc" "$root/usr/local/go/api"
program "$goroot/bin/go" /usr/local/go/bin/go
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
install -D /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"

# The modules as a proxy would serve them: the build needs no network.
go mod download
go list -m -f '{{.Path}}' all >/dev/null
cache=$(go env GOMODCACHE)/cache/download
go mod download -json | sed -n 's/^\t"\(Info\|GoMod\|Zip\)": "\(.*\)",\{0,1\}$/\2/p' | while read -r file; do
	install -D -m 0644 "$file" "$root/go-proxy/${file#"$cache"/}"
done
# Modules that only decide versions have no content except go.mod.
(cd "$cache" && find . -path ./sumdb -prune -o -name '*.mod' -print | cpio -pdm --quiet "$root/go-proxy" 2>/dev/null) ||
	(cd "$cache" && find . -path ./sumdb -prune -o -name '*.mod' -print0 | tar --null -T - -cf - | tar -C "$root/go-proxy" -xf -)

tar -C "$root" -c . | docker import \
	--change 'ENV PATH=/usr/local/go/bin:/usr/bin:/bin' --change 'ENV HOME=/root' --change 'ENV GOTOOLCHAIN=local' \
	--change 'ENV GOPROXY=file:///go-proxy' --change 'ENV GOSUMDB=off' --change 'WORKDIR /src' - "$image" >/dev/null
echo "image $image imported"
