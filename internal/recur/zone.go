package recur

import (
	"strings"
	"time"
)

const maxZone = 64

// local are names under which a machine has its own zone, which differs between instances.
var local = map[string]bool{"Local": true, "localtime": true, "posixrules": true}

// loadZone returns the zone of an IANA name, and UTC for none. Package notice embeds the data of zones.
func loadZone(name string) (*time.Location, error) {
	if len(name) > maxZone || strings.ContainsFunc(name, notInZone) {
		return nil, unknownZone(name)
	}

	// Some machines have each zone a second time under these names, with other data.
	if local[name] || strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") {
		return nil, unknownZone(name)
	}

	zone, err := time.LoadLocation(name)
	if err == nil {
		return zone, nil
	}

	for _, other := range []string{strings.ToUpper(name), capitals(name)} {
		if _, err := time.LoadLocation(other); err == nil {
			return nil, invalid("zone %q is unknown; want %s", name, other)
		}
	}

	return nil, unknownZone(name)
}

func unknownZone(name string) error {
	return invalid("zone %.80q is not an IANA name; want one such as Asia/Shanghai, Europe/Berlin or UTC", name)
}

func notInZone(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/_+-", r))
}

// capitals returns a name with the capital letters that most zones have: asia/shanghai becomes Asia/Shanghai.
func capitals(name string) string {
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if first := i == 0 || strings.IndexByte("/_-", b[i-1]) >= 0; first && c >= 'a' && c <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}

	return string(b)
}
