package main

import (
	"os"
	"testing"
)

func TestUsersFileIsGenerated(t *testing.T) {
	b, err := os.ReadFile("../../deploy/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != users() {
		t.Error("deploy/users.acl differs from the rights of the example; run go generate ./internal/doctor")
	}
}
