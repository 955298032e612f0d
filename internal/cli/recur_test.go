package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/seal"
	"notifier/internal/testkit"
)

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

func TestRecurCreateNamesPassedEnd(t *testing.T) {
	t.Parallel()
	_, errs := newTestCLI(t).run(2, "recur", "create", "app1:orders:daily:books", "--every", "1h", "--until", "2020-01-01T00:00:00Z", "--to",
		"https://shop.example/x")
	contains(t, errs, "--until is before the next tick")
}

// An export with the role admin has the content, which the import seals again. One of another role says that it lacks the content.
func TestImportOfSealedRecurringNotices(t *testing.T) {
	t.Parallel()
	const card, key = "4111111111111111", "app1:orders:daily:books"
	sealing := func(o *api.Options) {
		o.Routes.Prefix("app1:orders").Seal = seal.PerAudience
		o.Clients = append(o.Clients, auth.Client{Name: "p", Token: "producer-producer-producer", Role: auth.Produce})
	}
	from, to := newTestCLI(t, sealing), newTestCLI(t, sealing)
	from.run(0, "recur", "create", key, "--cron", "0 2 * * *", "--body", `{"card":"`+card+`"}`, "--to", "https://shop.example/x", "--header",
		"x-card="+card, "--audience", "m17", "--paused")
	out, _ := from.run(0, "recur", "show", key)
	contains(t, out, "content sealed in Redis")
	lines, said := from.run(0, "recur", "export")
	contains(t, lines, `"body":{"card":"`+card+`"}`, `"sealed":true`)
	contains(t, said, "1 recurring notice")
	file := filepath.Join(t.TempDir(), "recurring.ndjson")
	write := func(lines string) {
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(lines)
	out, _ = to.run(0, "import", file)
	contains(t, out, "1 created, 0 kept already, 0 refused")
	x, err := to.engine.Recurrences().Get(t.Context(), key)
	if err != nil || x.Content.Sealed == "" || len(x.Content.Body) > 0 {
		t.Errorf("%+v, %v", x, err)
	}
	if again, _ := to.run(0, "recur", "export"); again != lines {
		t.Errorf("imported\n%s\nwant\n%s", again, lines)
	}

	admin := from.env
	from.env = []string{admin[0], "NOTIFIER_TOKEN=producer-producer-producer"}
	bare, said := from.run(0, "recur", "export")
	testkit.CheckSecrets(t, []string{card}, bare)
	contains(t, said, "1 recurring notice without its content, which is sealed: use a token of the role operate or admin")
	write(bare)
	_, said = to.run(1, "import", file)
	contains(t, said, key+": sealed: its content was not exported")

	from.env = admin
	if _, err := from.engine.ForgetSubject(t.Context(), seal.AudienceSubject("m17"), ""); err != nil {
		t.Fatal(err)
	}
	out, _ = from.run(0, "recur", "show", key)
	contains(t, out, "content forgotten")
	gone, _ := from.run(0, "recur", "export")
	write(gone)
	_, said = to.run(1, "import", file)
	contains(t, said, key+": its content was forgotten on 20")
	out, _ = to.run(0, "recur", "export")
	if out != lines {
		t.Errorf("a refused import has changed\n%s\nto\n%s", lines, out)
	}
}
