# Sourced by scripts whose tests put rows into a record: sets work, a directory that is
# removed at the end, and page, the file that the rows go to, which is the page given, if
# RECORD=1, and else a new one. rows prints them.
# usage: . scripts/page.sh RECORD PAGE
record=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$work/page.md
printf '<!-- record: %s -->\n<!-- end: %s -->\n' "$record" "$record" >"$page"
if [ "${RECORD:-}" = 1 ]; then
	page=$PWD/$2
fi

rows() {
	sed -n "/^<!-- record: $record -->\$/,/^<!-- end: $record -->\$/p" "$page"
}
