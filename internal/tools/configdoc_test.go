package main

import (
	"os"
	"testing"
)

func TestConfigurationIsGenerated(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != configuration() {
		t.Error("docs/configuration.md is not what the table says; run go generate ./internal/config")
	}
}
