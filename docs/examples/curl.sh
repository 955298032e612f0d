#!/bin/sh
# Schedules a notice with curl, or verifies a callback's signature with openssl.
#   NOTIFIER_URL=http://127.0.0.1:8080 NOTIFIER_TOKEN=… KEY=app1:orders:paid:4711 HOOK_URL=https://shop.example/hook sh curl.sh schedule
#   WEBHOOK_SECRET=whsec_… sh curl.sh verify ID TIMESTAMP SIGNATURE < body
set -eu

schedule() {
	url=""
	[ -z "${HOOK_URL:-}" ] || url=",\"url\":\"$HOOK_URL\""
	# --retry repeats after a timeout and a 503; the key makes that safe.
	curl --silent --show-error --fail --retry 5 --max-time 10 --output /dev/null --write-out '%{http_code}\n' \
		--header "Authorization: Bearer ${NOTIFIER_TOKEN:-none}" \
		--header 'Content-Type: application/json' \
		--data "{\"key\":\"$KEY\",\"delay\":\"15s\",\"body\":{\"order\":4711,\"paid\":true}$url}" \
		"${NOTIFIER_URL:-http://127.0.0.1:8080}/v1/notices"
}

verify() {
	now=$(date +%s)
	[ $((now - $2)) -le 300 ] && [ $(($2 - now)) -le 300 ] || { echo "the timestamp is more than five minutes off" >&2; exit 1; }
	# The body goes straight into the hash: a shell variable would lose bytes.
	key=$(printf %s "${WEBHOOK_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
	want=v1,$({ printf '%s.%s.' "$1" "$2"; cat; } | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
	# A shell compares in no constant time: this is for a look, not for a server.
	for given in $3; do
		[ "$given" != "$want" ] || exit 0
	done
	echo "the signature is wrong" >&2
	exit 1
}

case "${1:-}" in
schedule) schedule ;;
verify) shift; verify "$@" ;;
*) echo "usage: sh curl.sh schedule | verify ID TIMESTAMP SIGNATURE" >&2; exit 2 ;;
esac
