package keys

import "strings"

// maxTurn is the maximum number of digits in the suffix that OrderKey removes.
const maxTurn = 9

// OrderKey returns the order key of a notice key: app:module:id, without the type. On ordered routes, notices with the
// same order key are delivered one after another. An id normally loses its suffix of ~ and 1 to 9 digits, so that one
// business id can have several notices of a type:
//
//	notice key            order key
//	app1:shop:created:O1  app1:shop:O1
//	app1:shop:paid:O1     app1:shop:O1
//	app1:shop:paid:O1~2   app1:shop:O1
func OrderKey(key string) string {
	start, id := orderParts(key)
	return start + id
}

// orderParts returns the two parts of a notice key that form its order key. Any other text is its own
// order key.
func orderParts(key string) (start, id string) {
	app := strings.IndexByte(key, ':')
	module := app + 1 + strings.IndexByte(key[app+1:], ':')
	kind := module + 1 + strings.IndexByte(key[module+1:], ':')
	if app < 0 || module <= app || kind <= module {
		return key, ""
	}

	return key[:module+1], withoutTurn(key[kind+1:])
}

// withoutTurn returns an id without its turn: a tilde and digits at its end. An id that is only a turn stays.
func withoutTurn(id string) string {
	end := len(id)
	for end > 0 && id[end-1] >= '0' && id[end-1] <= '9' {
		end--
	}

	if digits := len(id) - end; digits >= 1 && digits <= maxTurn && end > 1 && id[end-1] == '~' {
		id = id[:end-1]
	}

	return id
}
