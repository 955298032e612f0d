//go:build fault

package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// smallDisk is a directory that holds so many bytes. It is one in memory, which only
// root may mount: a run without is a failure, as a test that is not run shows nothing.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size)); err != nil {
		t.Fatalf("a disk of %d bytes: mount: %v; run this test as root, or in a container with the right CAP_SYS_ADMIN", size, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill fills a disk until left bytes are free. empty deletes the filler.
func fill(t *testing.T, disk string, left uint64) (empty func()) {
	t.Helper()
	name := filepath.Join(disk, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var st syscall.Statfs_t
	if err := syscall.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	if free := st.Bavail * uint64(st.Bsize); free > left {
		if _, err := f.Write(make([]byte, free-left)); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// The database's disk is full while notices are finalized. Deliveries stay on time, the log
// names the cause, and each notice gets its row once there is room again.
func TestHistoryCatchesUpAfterFullDisk(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		disk := smallDisk(t, 256<<20)
		pg := testkit.StartPostgresIn(t, disk, "max_wal_size=64MB", "min_wal_size=32MB", "autovacuum=off")
		database := pg.Database()
		fullDisk{disk: disk, database: database, says: "No space left on device", rows: func() map[string]int { return rows(t, database) },
			// What PostgreSQL makes of a full disk, a refusal or its end, is its own affair.
			emptied: func() { pg.Kill(); pg.Again() }}.ends(t)
	})
	t.Run("SQLite", func(t *testing.T) {
		disk := smallDisk(t, 64<<20)
		file := filepath.Join(disk, "history.db")
		fullDisk{disk: disk, database: "sqlite://" + file, says: "disk is full", rows: func() map[string]int { return sqliteRows(t, file) },
			emptied: func() {}}.ends(t)
	})
}

// fullDisk is a database whose disk is made full.
type fullDisk struct {
	disk, database string
	says           string // in the log
	rows           func() map[string]int
	emptied        func() // when there is room again
}

func (x fullDisk) ends(t *testing.T) {
	const n = 3000
	rec, db := listen(t, nil), newRedis(t)
	s := launch(t, db.URL(), wide(rec.url), []string{"NOTIFIER_HISTORY_URL=" + x.database})
	pad := strings.Repeat("x", 4000)
	notices := func(kind string) {
		t.Helper()
		from := time.Now().Add(time.Second)
		s.scheduleAll(n, func(i int) string {
			return fmt.Sprintf(`{"key":"app1:pay:%s:%d","due":%q,"body":{"i":%d,"pad":%q}}`, kind, i,
				from.Add(time.Duration(i)*3*time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"), i, noise(pad, i))
		})
	}
	waiting := db.waiting
	notices("before")
	rec.wait(waitTimeout, n)
	await(t, waitTimeout, "the database has confirmed all", func() bool { return s.numbers("pay").Settled == n && waiting() == 0 })
	empty := fill(t, x.disk, 2<<20)
	notices("full")
	rec.wait(waitTimeout, 2*n)
	await(t, waitTimeout, "the log says that there is no room", func() bool { return strings.Contains(tail(s.log), x.says) })
	there, full := rec.lateness("app1:pay:before"), rec.lateness("app1:pay:full")
	if t.Logf("with room: %s; with a full disk: %s", there, full); full.p50 > 2*there.p50+50*time.Millisecond {
		t.Error("deliveries are late while the disk is full")
	}
	await(t, waitTimeout, "all is settled", func() bool { return s.numbers("pay").Settled == 2*n })
	if waiting() == 0 {
		t.Fatal("the disk was not full: nothing waits in Redis")
	}
	t.Logf("%d of %d endings wait in Redis", waiting(), n)
	empty()
	x.emptied()
	await(t, 2*waitTimeout, "the database has confirmed all", func() bool { return waiting() == 0 })
	rec.once(2 * n)
	got := x.rows()
	for _, kind := range []string{"before", "full"} {
		for i := range n {
			if name := fmt.Sprintf("app1:pay:%s:%d delivered 1", kind, i); got[name] != 1 {
				t.Fatalf("%s has %d rows", name, got[name])
			}
		}
	}
	if len(got) != 2*n {
		t.Errorf("%d rows, want %d", len(got), 2*n)
	}
	db.dropped()
}

// noise is text that a database cannot make smaller.
func noise(pad string, seed int) string {
	b := []byte(pad)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = 'a' + byte(x%26)
	}
	return string(b)
}
