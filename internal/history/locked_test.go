package history

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envHold names the file that this test binary locks when it is started as the
// process that stands still.
const envHold = "HISTORY_TEST_HOLD"

// TestHoldALock is that process, and no test.
func TestHoldALock(t *testing.T) {
	t.Parallel()
	file := os.Getenv(envHold)
	if file == "" {
		return
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("DELETE FROM history"); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
}

// An instance that stands still amid a write keeps the lock of SQLite's file: the
// others read what is there, their writes end after a while with an error that
// says what to look for, and go on when it has gone.
func TestAStoppedProcessHoldsTheLock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.db")
	d := open(t, Options{URL: "sqlite://" + file})
	write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHoldALock$")
	c.Env = append(os.Environ(), envHold+"="+file)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if text, err := bufio.NewReader(out).ReadString('\n'); text != "held\n" {
		t.Fatalf("%q, %v", text, err)
	}
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = d.Write(t.Context(), rowsOf(BodiesKeep, ended(2, nil)))
	took := time.Since(began)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "another process has locked the file for 10s") ||
		took > 2*busyTimeout {
		t.Errorf("after %s: %v", took, err)
	}
	// Reading goes on, also by an instance that begins now.
	for _, d := range []*DB{d, open(t, Options{URL: "sqlite://" + file})} {
		if page, err := d.Find(t.Context(), Query{Limit: 10}); err != nil || len(page.Rows) != 1 {
			t.Errorf("%d rows, %v", len(page.Rows), err)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it reports the signal
	if w := write(t, d, rowsOf(BodiesKeep, ended(2, nil))); w.Rows != 1 {
		t.Errorf("%+v", w)
	}
	if list := all(t, d, Query{Limit: 10}); len(list) != 2 {
		t.Errorf("%v", list)
	}
}
