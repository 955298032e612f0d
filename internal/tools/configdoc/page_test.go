package main

import (
	"os"
	"testing"
)

func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != page() {
		t.Error("docs/configuration.md is not what the table says; run go generate ./internal/config")
	}
}
