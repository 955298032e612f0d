package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
)

// page is a writer that may be read meanwhile.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func TestWarningsAreWrittenAtOnceAndNothingIsLost(t *testing.T) {
	var out page
	l, closeLog, err := Logger("info", "json", &out)
	if err != nil {
		t.Fatal(err)
	}
	l.Debug("unseen")
	l.Info("first", zap.String("key", "a:b:c:d"))
	l.Warn("second")
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "first") || !strings.Contains(got, "second") {
		t.Errorf("after a warning: %q", got)
	}
	l.Info("third")
	closeLog()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["time"] == nil || m["msg"] == nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, _, err := Logger("loud", "json", &out); err == nil {
		t.Error("a level that does not exist was taken")
	}
}
