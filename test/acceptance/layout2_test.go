//go:build !quick

package acceptance

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// testdata/layout2 holds the data of a service that wrote layout 2 with 4 shards, as Redis commands, and
// the output of its "notifier list --all --json". Its routes were paused, and nothing was in flight. Notices of
// "book" wait in a sequence behind one that a receiver's pause holds. Those of "plain" are adopted timers.

// loadLayout2 writes the data of layout 2 to Redis.
func loadLayout2(t *testing.T, db *database) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "layout2", "redis.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var command []any
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			t.Fatal(err)
		}
		if err := db.Client().Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := db.Client().HSet(t.Context(), "notifier:meta", "id", "IDENTITY", "home", "other", "since", "1", "came", "x").Err(); err != nil {
		t.Fatal(err)
	}
}

// upgradeBlocks returns the shell commands of a section of docs/upgrade.md, by block.
func upgradeBlocks(t *testing.T, heading string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "upgrade.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/upgrade.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for i, part := range strings.Split(section, "```") {
		if i%2 == 1 {
			blocks = append(blocks, strings.ReplaceAll(strings.TrimPrefix(part, "sh\n"), "\n   ", "\n"))
		}
	}
	return blocks
}

// The steps of docs/upgrade.md take pending and dead notices from layout 2 to 3. The commands are read
// from the page. An old program has run those of the first block.
func TestLayout2IsImported(t *testing.T) {
	db, ctx := alone(t), t.Context()
	loadLayout2(t, db)
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, _ hit) { w.WriteHeader(http.StatusOK) })
	env := [][]string{route("pay", "app1:pay", rec.url, "RETRY=87600h,1s"),
		route("shop", "app2", "notice", "ALLOW=127.0.0.1", "RETRY=none"), route("book", "app3", rec.url, "ORDER=id"),
		route("plain", "app4", rec.url, "ADOPT=true"), {"NOTIFIER_SHARDS=4"}}

	refused := exec.CommandContext(ctx, binary, "serve")
	refused.Env = environment(append([][]string{{"NOTIFIER_LISTEN=127.0.0.1:0"}, reach(db.URL())}, env...))
	out, err := refused.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "docs/upgrade.md#from-layout-2-to-3") {
		t.Fatalf("serve on layout 2: %v\n%s", err, out)
	}

	blocks := upgradeBlocks(t, "From layout 2 to 3")
	if len(blocks) != 3 || !strings.Contains(blocks[0], "notifier list --all --json > notices.ndjson\n") {
		t.Fatalf("the section has the blocks %q", blocks)
	}
	dir := t.TempDir()
	listed, err := os.ReadFile(filepath.Join("testdata", "layout2", "notices.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "notices.ndjson"), listed, 0o600),
		os.Symlink(binary, filepath.Join(dir, "notifier"))); err != nil {
		t.Fatal(err)
	}
	shell := func(block string, more ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "sh", "-e", "-c", block)
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "NOTIFIER_REDIS_URL=" + db.URL()}, more...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, block, out)
		}
		return string(out)
	}

	foreign := []string{"shop:cart:7", "session"}
	for _, name := range foreign {
		if err := db.Client().Set(ctx, name, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	shell(blocks[1])
	left := strings.Join(db.names(), "\n")
	if want := "notifier:key\nnotifier:meta\nnotifier:paused\nnotifier:{audit}::rare\nnotifier:{audit}::rare:repeats\n" +
		"notifier:{audit}:clients\nnotifier:{audit}:last\nsession\nshop:cart:7"; left != want {
		t.Fatalf("Redis holds\n%s\nwant\n%s", left, want)
	}

	s := launch(t, db.URL(), env...)
	if id := db.Client().HGet(ctx, "notifier:meta", "id").Val(); id != "IDENTITY" {
		t.Errorf("the data identity is %q", id)
	}
	said := shell(strings.ReplaceAll(blocks[2], "<route>", "pay"), "NOTIFIER_URL="+s.url)
	if !strings.Contains(said, "23 restored") || !strings.Contains(said, "route pay is running") {
		t.Errorf("the last block printed\n%s", said)
	}
	shop, err := s.api.Get(ctx, "app2:m:t:ok1")
	if err != nil || shop.ID != "msg_57b25ed5f1f8275f86e441640f" || !s.numbers("shop").Paused {
		t.Errorf("%+v, %v; shop is paused: %t", shop, err, s.numbers("shop").Paused)
	}
	checkImported(t, s, listed)

	if _, err := s.api.Fire(ctx, "app1:pay:retried:O1~2"); err != nil {
		t.Fatal(err)
	}
	rec.wait(waitTimeout, 1)
	if got := rec.of("app1:pay:retried:O1~2"); len(got) != 1 || got[0].attempt != 2 {
		t.Errorf("received %+v, want attempt 2", got)
	}

	shell("notifier resume book", "NOTIFIER_URL="+s.url)
	rec.wait(waitTimeout, 3)
	if got := rec.all(); len(got) != 3 || got[1].key != "app3:book:created:B1" {
		t.Errorf("received %+v, want the notices of B1 in sequence", got)
	}
}

// checkImported compares the notices of a service with an output of list --all --json.
func checkImported(t *testing.T, s *service, listed []byte) {
	t.Helper()
	for line := range strings.Lines(string(listed)) {
		var want client.Notice
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		got, err := s.api.Get(t.Context(), want.Key)
		switch {
		case want.State == client.Delivered:
			if !client.IsStatus(err, http.StatusNotFound) {
				t.Errorf("%s: %+v, %v; settled notices are not imported", want.Key, got, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", want.Key, err)
			continue
		}
		if got.State != want.State || got.ID != want.ID || got.AttemptsMade != want.AttemptsMade || string(got.Body) != string(want.Body) ||
			!got.Due.Equal(want.Due) && want.State == client.Scheduled && want.Due.After(time.Now()) {
			t.Errorf("%s is\n%+v\nwant\n%+v", want.Key, got, want)
		}
	}
}
