#!/usr/bin/env bash
# Makes a release in dist/: for each platform an archive with the static program and its documents, SHA256SUMS
# and, where Docker runs, an image.
#
#     scripts/release.sh v1.2.3                   # all platforms
#     scripts/release.sh v1.2.3 linux/arm64       # some of them
#
# The same commit, Go and version make the same bytes. DIST is another folder. IMAGE is the image's name
# (notifier); none = make no image. BUILD_IMAGE and RUN_IMAGE are passed to the Dockerfile.
set -euo pipefail
cd "$(dirname "$0")/.."

all="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"
usage() {
	echo "usage: scripts/release.sh vMAJOR.MINOR.PATCH[-PRERELEASE] [PLATFORM...]" >&2
	echo "platforms: $all" >&2
	exit 2
}
version=${1:-}
[[ "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || usage
shift
[ "$#" -gt 0 ] || set -- $all
for platform in "$@"; do
	[[ " $all " == *" $platform "* ]] || usage
done
if [ -n "$(git status --porcelain 2>/dev/null)" ]; then
	echo "release.sh: warning: there are changes that no commit holds" >&2
fi
(cd bench && go run . -age) || echo "release.sh: warning: the age of the published benchmarks is unknown" >&2

dist=${DIST:-dist}
image=${IMAGE:-notifier}
# All files get the time of the commit.
revision=$(git rev-parse HEAD 2>/dev/null || true)
when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"

# Sorted, without an owner, with one time. This needs GNU tar.
pack() {
	if tar --version 2>/dev/null | grep -q GNU; then
		tar -C "$work" --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner --mode=go-w,go+rX -cf - "$1" | gzip -9n
	else
		tar -C "$work" -cf - "$1" | gzip -9n
	fi
}

archives=()
for platform in "$@"; do
	name="notifier_${version}_${platform/\//_}"
	mkdir "$work/$name"
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -buildvcs=false \
		-ldflags "-s -w -X main.version=$version -X main.revision=$revision" -o "$work/$name/notifier" ./cmd/notifier
	cp -R README.md CHANGELOG.md SECURITY.md openapi.json docs deploy "$work/$name/"
	rm -rf "$work/$name/deploy/secrets"
	pack "$name" >"$dist/$name.tar.gz"
	archives+=("$name.tar.gz")
	echo "made $dist/$name.tar.gz"
done
sum=sha256sum
command -v sha256sum >/dev/null || sum="shasum -a 256"
(cd "$dist" && $sum "${archives[@]}" >SHA256SUMS)
echo "made $dist/SHA256SUMS"

if [ "$image" = none ]; then
	exit 0
fi
if ! docker info >/dev/null 2>&1; then
	echo "release.sh: Docker does not answer; no image is made (IMAGE=none says that none is wanted)" >&2
	exit 1
fi
args=(--build-arg VERSION="$version" --build-arg REVISION="$revision")
for name in BUILD_IMAGE RUN_IMAGE; do
	if [ -n "${!name:-}" ]; then args+=(--build-arg "$name=${!name}"); fi
done
docker build -q "${args[@]}" -t "$image:$version" . >/dev/null
docker run --rm "$image:$version" version
echo "made the image $image:$version"
