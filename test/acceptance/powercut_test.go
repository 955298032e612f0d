//go:build fault

package acceptance

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
	"notifier/test/record"
)

// powerCut ends a Redis as a power cut does, and returns the number of lost bytes. Each
// append-only file keeps its synced bytes and loses bytes that were only written. That is the
// worst case of a disk that keeps confirmed writes.
func powerCut(t *testing.T, db *testkit.Redis, dir string) (gone int64) {
	t.Helper()
	db.Kill()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".aof") {
			return err
		}
		var synced int64
		if raw, err := os.ReadFile(path + ".synced"); err == nil {
			if synced, err = strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err != nil {
				return fmt.Errorf("read %s.synced: %w", path, err)
			}
		}
		info, err := d.Info()
		if err != nil || synced >= info.Size() {
			return err
		}
		gone += info.Size() - synced
		return os.Truncate(path, synced)
	})
	if err != nil {
		t.Fatal(err)
	}
	return gone
}

// preload builds what notes a Redis's syncs.
func preload(t *testing.T) string {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "synced.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-O1", "-shared", "-fPIC", "-o", lib, "testdata/synced.c",
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return lib
}

// The power of Redis's machine is cut five times, at each level of durability.
func TestPowerCuts(t *testing.T) {
	lib := preload(t)
	levels := []level{{"memory", []string{"appendfsync everysec"}}, {"memory", []string{"appendfsync always"}},
		{"fsync", []string{"appendfsync always"}}, {"fsync", []string{"appendfsync everysec"}}}
	for i, lv := range levels {
		t.Run(lv.String(), func(t *testing.T) { powerCuts(t, lib, fmt.Sprintf("8.%d", i+1), lv) })
	}
}

func powerCuts(t *testing.T, lib, no string, lv level) {
	const cuts = 5
	begun, dir := time.Now(), t.TempDir()
	row := record.Fault{No: no, Fault: fmt.Sprintf("power cut, %d times", cuts), Settings: lv.String(), From: begun, Aim: "its figure"}
	db := testkit.StartRedis(t, testkit.WithAOF(dir), testkit.WithEnv("LD_PRELOAD="+lib),
		testkit.WithConfig(append(lv.config, "auto-aof-rewrite-percentage 0")...))
	row.Server = versionOf(t, db.Client())
	if no == "8.4" { // which servers differ in
		row.No += strings.TrimPrefix(numberOf(row.Server), "11")
	}
	if err := wire.Synced(t.Context(), db.Client()); lv.durability == "fsync" && err != nil {
		row.Found = "the service refuses to start on " + row.Server + ": " + err.Error()
		row.Put(t)
		t.Log(row.Found)
		return
	}
	if lv.durability == "fsync" || lv.config[0] == "appendfsync always" {
		row.Aim = "0 lost"
	}
	rec := listen(t, nil)
	s := launch(t, db.URL(), wide(rec.url), []string{"NOTIFIER_DURABILITY=" + lv.durability})
	dice := rand.New(rand.NewPCG(record.Seed(t), 8))
	waits := make([]time.Duration, 1009) // so many that no period of the calls shows
	for i := range waits {
		waits[i] = time.Second + time.Duration(dice.Int64N(int64(6*time.Second)))
	}
	l := newLedger(s, keys.Space{Namespace: "notifier", Shards: 1}, "p", func(i int) time.Duration { return waits[i%len(waits)] })
	go l.run(record.Sized(300, 1000))
	var faults []window
	var gone int64
	for range cuts {
		time.Sleep(record.Sized(2*time.Second, 4*time.Second) + time.Duration(dice.Int64N(int64(time.Second)))) // sleep: steady work before each cut
		from := time.Now()
		gone += powerCut(t, db, dir)
		db.Restart()
		faults = append(faults, window{from, time.Now()})
	}
	time.Sleep(2 * time.Second) // sleep: steady work after the last
	entries := l.end()
	s.drained(entries)
	r := count(entries, rec, faults...)
	r.log(t)
	row.Counts = r.counts()
	row.Found = record.Reached(row.Aim != "0 lost" || len(r.missing) == 0,
		fmt.Sprintf("%d bytes of the append-only file had not reached the disk", gone))
	row.Put(t)
	if row.Aim == "0 lost" && len(r.missing) > 0 {
		t.Errorf("%d were lost, as %s", len(r.missing), r.missing[0])
	}
	if lv.config[0] == "appendfsync always" && r.doubled > 64*cuts {
		t.Errorf("%d doubled, and at most 64 were under way at each cut", r.doubled)
	}
}
