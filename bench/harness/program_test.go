package harness

import (
	"maps"
	"testing"
)

func TestSecondsAreAddedUpByModule(t *testing.T) {
	v := Values{}
	err := secondsByModule([]byte(`[
		{"Mode":"build","Package":"fmt","TimeStart":"2026-11-26T10:00:00Z","TimeDone":"2026-11-26T10:00:01Z"},
		{"Mode":"build","Package":"example.com/a/x","TimeStart":"2026-11-26T10:00:00Z","TimeDone":"2026-11-26T10:00:02Z"},
		{"Mode":"build","Package":"example.com/a/y","TimeStart":"2026-11-26T10:00:02Z","TimeDone":"2026-11-26T10:00:02.5Z"},
		{"Mode":"link-install","Package":"notifier/cmd/notifier","TimeStart":"2026-11-26T10:00:02Z","TimeDone":"2026-11-26T10:00:09Z"},
		{"Mode":"link","Package":"notifier/cmd/notifier","TimeStart":"2026-11-26T10:00:03Z","TimeDone":"2026-11-26T10:00:07Z"}]`),
		"fmt\nexample.com/a/x example.com/a\nexample.com/a/y example.com/a\nnotifier/cmd/notifier notifier\n", v)
	want := Values{SecondsOf + standardLibrary: 1, SecondsOf + "example.com/a": 2.5, SecondsOf + "linker": 4}
	if err != nil || !maps.Equal(v, want) {
		t.Errorf("%v, %v; want %v", v, err, want)
	}
	if err := secondsByModule([]byte("no JSON"), "", v); err == nil {
		t.Error("no error")
	}
}

func TestMBAreReadByModule(t *testing.T) {
	v := Values{}
	err := mbByModule("  8.31  code  3.10  data  2.00  tables  3.21  standard library and runtime\n"+
		"  1.20  code  0.50  data  0.20  tables  0.50  example.com/a\n 34.60  all modules\n", v)
	want := Values{MBOf + standardLibrary: 8.31, MBOf + "example.com/a": 1.2}
	if err != nil || !maps.Equal(v, want) {
		t.Errorf("%v, %v; want %v", v, err, want)
	}
	if err := mbByModule("x  code  1  data  1  tables  1  name", v); err == nil {
		t.Error("no error")
	}
}

func TestSlowHostNeedsFourWindows(t *testing.T) {
	if n := slowHostJobs(Sizes()["standard"]); n != 1600 {
		t.Errorf("%d jobs, want 1,600", n)
	}
	if n := manyHosts(Sizes()["standard"]); n != 400 {
		t.Errorf("%d receivers, want 400", n)
	}
}
