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

// envHold is the variable with the name of the file that this test binary locks when it is started as the
// stopped process.
const envHold = "HISTORY_TEST_HOLD"

// TestHoldALock is that process, not a test.
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

// An instance that is stopped during a write keeps the lock of SQLite's file. The others can read. Their
// writes fail after a while with an error that names the cause, and succeed after the process has ended.
func TestStoppedProcessKeepsTheLock(t *testing.T) {
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
		took > 2*BusyTimeout {
		t.Errorf("after %s: %v", took, err)
	}
	// Reads still work, also by an instance that starts now.
	for _, d := range []*DB{d, open(t, Options{URL: "sqlite://" + file})} {
		if page, err := d.Find(t.Context(), Query{Limit: 10}); err != nil || len(page.Rows) != 1 {
			t.Errorf("%d rows, %v", len(page.Rows), err)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // the error is the signal
	if w := write(t, d, rowsOf(BodiesKeep, ended(2, nil))); w.Rows != 1 {
		t.Errorf("%+v", w)
	}
	if list := all(t, d, Query{Limit: 10}); len(list) != 2 {
		t.Errorf("%v", list)
	}
}
