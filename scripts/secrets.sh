#!/usr/bin/env bash
# Makes the secrets that deploy/compose.yaml mounts, into deploy/secrets. What is
# there already stays: run it again after removing one file to renew that one.
set -euo pipefail
umask 077
cd "$(dirname "$0")/../deploy"
mkdir -p secrets

random() { head -c "$1" /dev/urandom | base64 | tr -d '\n'; }
word() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
# The containers' user is not the owner of the files; the directory keeps others
# on this machine out.
keep() {
	[ -e "secrets/$1" ] && return
	printf '%s\n' "$2" >"secrets/$1"
	chmod 0444 "secrets/$1"
	echo "made deploy/secrets/$1"
}

# Redis: the password in the address, its SHA-256 in the list of users. The two
# belong together.
if [ ! -e secrets/redis_url ] || [ ! -e secrets/users.acl ]; then
	rm -f secrets/redis_url secrets/users.acl
	password=$(word)
	hash=$(printf '%s' "$password" | sha256sum | cut -d ' ' -f 1)
	keep redis_url "redis://notifier:$password@redis:6379/0"
	keep users.acl "$(sed "s/^user notifier on resetpass/user notifier on #$hash/" users.acl)"
fi
keep shop_token "$(word)"
keep orders_secret "whsec_$(random 32)"
