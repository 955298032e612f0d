package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

func TestRecurCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key = "app1:orders:daily:books"
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(`{"a": [1]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--cron", "0 2 * * *", "--zone", "Asia/Shanghai", "--body", "@" + file, "--to", "https://shop.example/x"}
	out, _ := d.run(0, append([]string{"recur", "create", key, "--dry-run"}, flags...)...)
	contains(t, out, key+": valid; without --dry-run it would be stored\n", "T18:00:00Z", "02:00:00 Asia/Shanghai")
	if n := strings.Count(out, "next "); n != 5 {
		t.Errorf("%d ticks: %s", n, out)
	}
	d.run(1, "recur", "show", key)
	out, _ = d.run(0, append([]string{"recur", "create", key}, flags...)...)
	contains(t, out, key+": created\n", "T18:00:00Z")
	out, _ = d.run(0, append([]string{"recur", "create", key}, flags...)...)
	contains(t, out, "replaced, or unchanged")
	out, _ = d.run(0, "recur", "list", "--prefix", "app1")
	contains(t, out, key, "0 2 * * * Asia/Shanghai", "active")
	out, _ = d.run(0, "recur", "show", key, "--json")
	contains(t, out, `"a": [`)
	out, _ = d.run(0, "recur", "pause", key)
	contains(t, out, key+": paused\n")
	out, _ = d.run(0, "recur", "next", key)
	contains(t, out, "it is paused: notifier recur resume "+key)
	out, _ = d.run(0, "recur", "run", key)
	contains(t, out, key+"~", ": scheduled, due ")
	out, _ = d.run(0, "get", key+"~1")
	contains(t, out, "for the tick of")
	out, _ = d.run(0, "recur", "resume", key)
	contains(t, out, key+": resumed\n")
	out, _ = d.run(0, "recur", "delete", key)
	contains(t, out, key+": deleted\n")
	d.run(1, "recur", "delete", key)
	d.run(1, "recur", "run", key)
	out, _ = d.run(0, "recur", "create", key, "--every", "15m", "--anchor", "2026-12-01T00:07:00Z", "--body-text", "x", "--to",
		"https://shop.example/x")
	contains(t, out, ":07:00Z", ":22:00Z")

	for _, bad := range [][]string{{"create"}, {"create", key}, {"create", key, "--cron", "@daily", "--every", "1h"},
		{"create", key, "--every", "1h", "--body", "{"}, {"create", key, "--every", "1h", "--body", "@/none"},
		{"create", key, "--cron", "61 * * * *", "--to", "https://shop.example/x"}, {"create", key + "~1", "--every", "1h"},
		{"create", key, "--cron", "@daily", "--zone", "Nowhere", "--to", "https://shop.example/x"}, {"show"}, {"next", key, key}} {
		d.run(2, append([]string{"recur"}, bad...)...)
	}
}

// An import of an export passes the tick of the last notice, which may be to come.
func TestImportPassesTheLastTick(t *testing.T) {
	t.Parallel()
	at := time.Date(2100, 1, 1, 2, 0, 0, 0, time.UTC)
	q, err := putAgain(&client.Recurrence{Key: "a:b:c:n", Every: "1h", Number: 9, LastTick: at})
	if err != nil || q.Number != 9 || !q.LastTick.Equal(at) {
		t.Errorf("%+v, %v", q, err)
	}
}

// An export has the recurring notices with their numbers. An import never takes a number back.
func TestImportOfRecurringNotices(t *testing.T) {
	t.Parallel()
	from, to := newTestCLI(t), newTestCLI(t)
	keyed := []string{"app1:orders:daily:books", "app1:orders:daily:poll"}
	from.run(0, "recur", "create", keyed[0], "--cron", "0 2 * * *", "--zone", "Asia/Shanghai", "--body", "{\"a\":\n 1}", "--to",
		"https://shop.example/x", "--retry", "none", "--paused", "--from", "2100-01-01T00:00:00Z")
	from.run(0, "recur", "create", keyed[1], "--every", "90m", "--missed", "all", "--missed-most", "3", "--expires", "1h", "--times", "20",
		"--body-text", "x", "--to", "https://shop.example/x", "--retry", "15s,1m", "--header", "a=b",
		"--from", "2100-01-01T00:00:00Z")
	from.run(0, "recur", "run", keyed[0])
	from.run(0, "recur", "run", keyed[0])
	lines, said := from.run(0, "recur", "export", "--prefix", "app1:orders")
	contains(t, said, "2 recurring notices")
	file := filepath.Join(t.TempDir(), "recurring.ndjson")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := to.run(0, "import", file)
	contains(t, out, "2 created, 0 kept already, 0 refused")
	again, _ := to.run(0, "recur", "export")
	if again != lines {
		t.Errorf("imported\n%s\nwant\n%s", again, lines)
	}
	out, _ = to.run(0, "recur", "run", keyed[0])
	contains(t, out, keyed[0]+"~3: scheduled")
	out, _ = to.run(0, "import", file)
	contains(t, out, "0 created, 2 kept already, 0 refused")
	out, _ = to.run(0, "recur", "show", keyed[0], "--json")
	contains(t, out, `"number": 3`)
	secret := strings.Replace(lines, `"paused":true`, `"paused":true,"headers_withheld":["authorization"]`, 1)
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	_, said = to.run(1, "import", file)
	contains(t, said, file+":1: "+keyed[0]+": headers: the value of authorization was not exported")
}
