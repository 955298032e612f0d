#!/usr/bin/env bash
# Makes the secrets that the compose files in deploy mount, in deploy/secrets.
# Files that are there already are kept: to renew one, remove its file and run
# this again.
set -euo pipefail
umask 077
cd "$(dirname "$0")/../deploy"
mkdir -p secrets

random() { head -c "$1" /dev/urandom | base64 | tr -d '\n'; }
word() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
# The user in the containers is not the owner of the files and must be able to
# read them; the rights of the directory keep other users of this machine out.
keep() {
	[ -e "secrets/$1" ] && return
	printf '%s\n' "$2" >"secrets/$1"
	chmod 0444 "secrets/$1"
	echo "made deploy/secrets/$1"
}
# The file is written in place, because a running container has mounted the file
# and not its name.
renew() {
	[ "$(cat "secrets/$1" 2>/dev/null)" = "$2" ] && return
	[ ! -e "secrets/$1" ] || chmod 0644 "secrets/$1"
	printf '%s\n' "$2" >"secrets/$1"
	chmod 0444 "secrets/$1"
	echo "made deploy/secrets/$1"
}

# Redis: the service's password in its address, the administrator's in a file, and the SHA-256 of both in the
# list of users, which is made from deploy/users.acl each time. A running Redis reads the list with ACL LOAD.
hash() { printf '%s' "$1" | sha256sum | cut -d ' ' -f 1; }
keep redis_url "redis://notifier:$(word)@redis:6379/0"
keep admin_password "$(word)"
password=$(sed -n 's#^redis://notifier:\([A-Za-z0-9._~-]*\)@.*#\1#p' secrets/redis_url)
[ -n "$password" ] || {
	echo "deploy/secrets/redis_url has no password of the user notifier (letters, digits and ._~- only): mend or remove it" >&2
	exit 1
}
keep replica_password "$(word)"
keep sentinel_password "$(word)"
users=$(
	sed "s/^user notifier on resetpass/user notifier on #$(hash "$password")/" users.acl
	# For people: the service's own user may neither read the slow log nor save.
	echo "user admin on #$(hash "$(cat secrets/admin_password)") ~* &* +@all"
	# As whom a replica logs in to its master, and a sentinel to both: the rights
	# that Redis's documentation names for them.
	echo "user replica on #$(hash "$(cat secrets/replica_password)") +psync +replconf +ping"
	echo "user sentinel on #$(hash "$(cat secrets/sentinel_password)") allchannels +multi +replicaof +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill +script|kill"
)
renew users.acl "$users"
# The same for compose.sentinel.yaml and compose.cluster.yaml.
renew replication.conf "masteruser replica
masterauth $(cat secrets/replica_password)"
renew sentinel.conf "port 26379
sentinel monitor notifier 172.28.10.11 6379 2
sentinel auth-user notifier sentinel
sentinel auth-pass notifier $(cat secrets/sentinel_password)
sentinel down-after-milliseconds notifier 2000
sentinel failover-timeout notifier 20000"
renew redis_url_sentinel "redis://notifier:$password@172.28.10.21:26379/0?master_name=notifier&addr=172.28.10.22:26379&addr=172.28.10.23:26379"
renew redis_url_cluster "redis://notifier:$password@172.28.20.11:6379/0?addr=172.28.20.12:6379&addr=172.28.20.13:6379&addr=172.28.20.14:6379&addr=172.28.20.15:6379&addr=172.28.20.16:6379"
keep ops_token "$(word)"
keep shop_token "$(word)"
keep orders_secret "whsec_$(random 32)"
