package seal

import (
	"crypto/hkdf"
	"crypto/sha256"
	"slices"
	"strings"
)

// fingerprintSize is the length of a fingerprint in bytes.
const fingerprintSize = 6

// IDs returns the keys as instances announce them to each other: name:fingerprint. A fingerprint reveals
// nothing about its key. Two keys of one name have different fingerprints.
func (s *ServiceKeys) IDs() []string {
	ids := make([]string, len(s.keys))
	for i, k := range s.keys {
		ids[i] = k.id()
	}

	return ids
}

func (k serviceKey) id() string {
	sum, err := hkdf.Key(sha256.New, k.secret, nil, version+" fingerprint", fingerprintSize)
	if err != nil {
		panic(err) // only a length can be wrong
	}

	return k.name + ":" + encoding.EncodeToString(sum)
}

// NameOf returns the name in one of IDs.
func NameOf(id string) string {
	name, _, _ := strings.Cut(id, ":")
	return name
}

// Common returns the same keys, so that the first key that is in all lists of IDs wraps. ok is false if there is none; then the
// first key wraps.
func (s *ServiceKeys) Common(lists [][]string) (with *ServiceKeys, ok bool) {
	for i, k := range s.keys {
		id := k.id()
		if slices.ContainsFunc(lists, func(list []string) bool { return !slices.Contains(list, id) }) {
			continue
		}

		first := append([]serviceKey{k}, s.keys[:i]...)
		return &ServiceKeys{append(first, s.keys[i+1:]...)}, true
	}

	return s, false
}
