package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocumentIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "openapi.json")
	var stderr strings.Builder
	if code := run([]string{"apidoc", path}, io.Discard, &stderr); code != 0 || stderr.String() != "" {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the document is not openapi.json; run go generate ./internal/api")
	}
}

func TestExitCodesOfErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "usage: tools COMMAND ARGUMENT, with one of the commands acl, apidoc, binsize,"},
		{[]string{"none", filepath.Join(dir, "a")}, 2, "usage: tools COMMAND ARGUMENT, with one of"},
		{[]string{"apidoc"}, 2, "usage: tools apidoc FILE\n"},
		{[]string{"apidoc", filepath.Join(dir, "a"), filepath.Join(dir, "b")}, 2, "usage: tools apidoc FILE\n"},
		{[]string{"apidoc", filepath.Join(dir, "none", "a")}, 1, "apidoc: open "},
		{[]string{"binsize", filepath.Join(dir, "none")}, 1, "binsize: "},
	} {
		var stderr strings.Builder
		if code := run(c.args, io.Discard, &stderr); code != c.code || !strings.HasPrefix(stderr.String(), c.says) {
			t.Errorf("%q: exit code %d, %q; want %d, %q", c.args, code, stderr.String(), c.code, c.says)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v; want no file", files, err)
	}
}
