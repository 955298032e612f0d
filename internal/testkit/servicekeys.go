package testkit

import (
	"encoding/base64"
	"strings"
	"testing"

	"notifier/internal/seal"
)

// SealKeys returns a value of NOTIFIER_SEAL_KEYS with service keys of these names. A name always has the same key.
func SealKeys(names ...string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = sealKey(name, name+"*")
	}

	return strings.Join(list, ",")
}

// OtherSealKey returns a value of NOTIFIER_SEAL_KEYS with another key of that name.
func OtherSealKey(name string) string { return sealKey(name, "?") }

func sealKey(name, pattern string) string {
	return name + "=" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(pattern, seal.KeySize)[:seal.KeySize]))
}

// ServiceKeys returns the service keys of SealKeys.
func ServiceKeys(t testing.TB, names ...string) *seal.ServiceKeys {
	t.Helper()
	return serviceKeys(t, SealKeys(names...))
}

// OtherServiceKey returns the service key of OtherSealKey.
func OtherServiceKey(t testing.TB, name string) *seal.ServiceKeys {
	t.Helper()
	return serviceKeys(t, OtherSealKey(name))
}

func serviceKeys(t testing.TB, list string) *seal.ServiceKeys {
	t.Helper()
	k, err := seal.ParseServiceKeys(list)
	if err != nil {
		t.Fatal(err)
	}

	return k
}
