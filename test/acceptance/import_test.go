//go:build fault

package acceptance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"notifier/internal/keys"
)

// An import of a million lines is killed half-way and run again.
func TestKilledImportCanBeRepeated(t *testing.T) {
	const n = 1_000_000
	db := newRedis(t)
	s := launch(t, db.URL(), route("bulk", "app1:bulk", "log"))
	file := filepath.Join(t.TempDir(), "notices.ndjson")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	due := time.Now().Add(24 * time.Hour)
	for i := range n {
		if _, err := fmt.Fprintln(w, line(fmt.Sprintf("app1:bulk:line:%d", i), due)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	pending := func() int64 {
		return db.sum(func(shard int) int64 {
			return db.Client().ZCard(t.Context(), db.space().Shadow(keys.Partition{Prefix: "app1:bulk", Shard: shard})).Val()
		})
	}
	command := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), binary, "import", file)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_URL=" + s.url}
		return c
	}
	from := time.Now()
	first := command()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, 5*waitTimeout, "half the lines imported", func() bool { return pending() >= n/2 })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it reports the signal
	half := time.Since(from)
	stopped := pending()
	from = time.Now()
	out, err := command().CombinedOutput()
	if err != nil {
		t.Fatalf("the second run: %v\n%s", err, out)
	}
	rest := time.Since(from)
	records := db.sum(func(shard int) int64 {
		return db.Client().HLen(t.Context(), db.space().Records(keys.Partition{Prefix: "app1:bulk", Shard: shard})).Val()
	})
	if got := pending(); got != n || records != n {
		t.Errorf("%d in the shadow, %d records, want %d", got, records, n)
	}
	if stopped >= n {
		t.Errorf("the first run was done before it was killed")
	}
	if out, err := command().CombinedOutput(); err != nil || pending() != n {
		t.Errorf("a third run: %v, %d pending\n%s", err, pending(), out)
	}
	t.Logf("killed at %d after %s; the second run %s, and said %q; memory by Redis %s", stopped, half.Round(time.Millisecond),
		rest.Round(time.Millisecond),
		out, info(t, db, "used_memory_human"))
}

// info reads a line of Redis's INFO.
func info(t *testing.T, db *database, name string) string {
	t.Helper()
	m, err := db.servers[0].Client().InfoMap(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range m {
		if v, ok := section[name]; ok {
			return v
		}
	}
	t.Fatalf("INFO has no %s", name)
	return ""
}
