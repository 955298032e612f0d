package history

import (
	"os"
	"path/filepath"
	"testing"
)

// Only the service's user reads the history, whatever the umask.
func TestHistoryFilesArePrivate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.db")
	d := open(t, Options{URL: "sqlite://" + file})
	if err := d.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(file + "*")
	if err != nil || len(list) < 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, name := range list {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(name), info.Mode(), err)
		}
	}
}
