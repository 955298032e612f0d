package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrNoKey means that a key was wrapped with a service key that this process does not have.
var ErrNoKey = errors.New("the service key is not configured")

// maxName is the length of a service key's name.
const maxName = 32

// The uses of wrapped keys. Each is bound to the wrap, so that neither can stand in the other's place.
const (
	useData   = "data key"
	useDigest = "digest key"
)

// wrapMark begins a wrapped key. The digit is the version of the format.
const wrapMark = "w1"

// ServiceKeys wrap and unwrap the keys of subjects.
type ServiceKeys struct{ keys []serviceKey }

type serviceKey struct {
	name   string
	secret []byte
}

// ParseServiceKeys reads named keys: 2026-11=<base64>,2026-05=<base64>. The first wraps, all unwrap. Its errors contain no
// keys.
func ParseServiceKeys(text string) (*ServiceKeys, error) {
	s := &ServiceKeys{}
	for i, part := range strings.Split(text, ",") {
		k, err := parseServiceKey(strings.TrimSpace(part), i+1)
		if err != nil {
			return nil, err
		}

		for _, other := range s.keys {
			if other.name == k.name {
				return nil, fmt.Errorf("two keys have the name %s; a name is never used for another key", k.name)
			}
			if string(other.secret) == string(k.secret) {
				return nil, fmt.Errorf("%s and %s are the same key; each name needs a different key", other.name, k.name)
			}
		}

		s.keys = append(s.keys, k)
	}

	return s, nil
}

// parseServiceKey reads one name=<base64>; n is its place in the list.
func parseServiceKey(text string, n int) (serviceKey, error) {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case text == "":
		return serviceKey{}, fmt.Errorf("entry %d is empty; want name=<32 random bytes in base64>", n)
	case !ok, !validName(name):
		// An entry without a valid name may be a key, so it is not shown.
		return serviceKey{}, fmt.Errorf("entry %d has no valid name; want name=<32 random bytes in base64>, where the name has 1 to %d "+
			"letters, digits, '_', '.' or '-', such as 2026-11", n, maxName)
	}

	secret, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		secret, err = base64.RawStdEncoding.DecodeString(value)
	}

	switch {
	case err != nil:
		return serviceKey{}, fmt.Errorf("the key %s is not base64; want 32 random bytes, as head -c 32 /dev/urandom | base64 prints them", name)
	case len(secret) != KeySize:
		return serviceKey{}, fmt.Errorf("the key %s has %d bytes; want 32 random bytes, as head -c 32 /dev/urandom | base64 prints them",
			name, len(secret))
	}

	return serviceKey{name, secret}, nil
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-') {
			return false
		}
	}

	return len(name) > 0 && len(name) <= maxName
}

// Names returns the names of the keys. The first wraps.
func (s *ServiceKeys) Names() []string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.name
	}

	return names
}

// String returns the names of the keys.
func (s *ServiceKeys) String() string { return "service keys " + strings.Join(s.Names(), ", ") }

// GoString keeps the keys out of %#v.
func (s *ServiceKeys) GoString() string { return s.String() }

// WrapData returns the stored form of a subject's data key.
func (s *ServiceKeys) WrapData(space string, of Subject, d *DataKey) (string, error) {
	return s.wrap(random(saltSize), d.secret, binding{useData, space, of, d.ID})
}

// UnwrapData returns the data key with that id of a subject.
func (s *ServiceKeys) UnwrapData(space string, of Subject, id, wrapped string) (*DataKey, error) {
	secret, err := s.unwrap(wrapped, binding{useData, space, of, id})
	if err != nil {
		return nil, err
	}

	return &DataKey{id, secret}, nil
}

// WrapDigest returns the stored form of a subject's digest key.
func (s *ServiceKeys) WrapDigest(space string, of Subject, d *DigestKey) (string, error) {
	return s.wrap(random(saltSize), d.secret, binding{useDigest, space, of, d.ID})
}

// UnwrapDigest returns the digest key with that id of a subject.
func (s *ServiceKeys) UnwrapDigest(space string, of Subject, id, wrapped string) (*DigestKey, error) {
	secret, err := s.unwrap(wrapped, binding{useDigest, space, of, id})
	if err != nil {
		return nil, err
	}

	return newDigestKey(id, secret), nil
}

// binding is the place of a wrapped key, outside which it does not open.
type binding struct {
	use, space string
	of         Subject
	id         string // of the wrapped key
}

// names returns the names that a wrap with a service key is bound to.
func (b binding) names(service string) []string {
	return []string{b.use, b.space, string(b.of), b.id, service}
}

// wrap encrypts a key's secret with the first service key.
func (s *ServiceKeys) wrap(salt, secret []byte, to binding) (string, error) {
	first := s.keys[0]
	box, err := encrypt(first.secret, salt, secret, to.names(first.name)...)
	if err != nil {
		return "", err
	}

	return wrapMark + ":" + first.name + ":" + box, nil
}

// unwrap decrypts what wrap has returned.
func (s *ServiceKeys) unwrap(wrapped string, to binding) ([]byte, error) {
	name, box, err := cutWrapped(wrapped)
	if err != nil {
		return nil, err
	}

	for _, k := range s.keys {
		if k.name != name {
			continue
		}

		secret, err := decrypt(k.secret, box, to.names(name)...)
		if err == nil && len(secret) != KeySize {
			err = ErrForeign
		}

		return secret, err
	}

	return nil, fmt.Errorf("%w: %s", ErrNoKey, name)
}

// WrappedWith returns the name of the service key that opens a wrapped key.
func WrappedWith(wrapped string) (string, error) {
	name, _, err := cutWrapped(wrapped)
	return name, err
}

func cutWrapped(wrapped string) (name, box string, err error) {
	mark, rest, ok1 := strings.Cut(wrapped, ":")
	name, box, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || mark != wrapMark || !validName(name) {
		return "", "", ErrFormat
	}

	return name, box, nil
}
