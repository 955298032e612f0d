package main

import (
	"bytes"
	"os"
	"testing"
)

func TestPageIsUpToDate(t *testing.T) {
	want, err := page()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/api.md")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/api.md is not what the code says (%v); run go generate ./internal/api", err)
	}
}
