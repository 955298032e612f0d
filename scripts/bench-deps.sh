#!/usr/bin/env bash
# Installs the servers that bench/ compares with this project: Redis, PostgreSQL, beanstalkd and RabbitMQ,
# from Debian. NATS is a Go program and is built at its first measurement. The table of results names a server
# that is missing. The services of the packages are stopped, because the benchmarks start separate servers on
# free ports.
set -euo pipefail

command -v apt-get >/dev/null || {
	echo "bench-deps: no apt-get here; install redis-server, postgresql (with initdb), beanstalkd and rabbitmq-server by hand" >&2
	exit 1
}
missing=()
for package in redis-server postgresql beanstalkd rabbitmq-server; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
	echo "bench-deps: all is there"
	exit 0
fi
root=()
if [ "$(id -u)" -ne 0 ]; then root=(sudo); fi
wait=(-o DPkg::Lock::Timeout=300)
"${root[@]}" apt-get update -q "${wait[@]}"
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wait[@]}" "${missing[@]}"
for package in "${missing[@]}"; do
	"${root[@]}" service "$package" stop >/dev/null 2>&1 || true
done
