package keys

import "strings"

// maxTurn is the maximum number of digits in the suffix that OrderKey removes.
const maxTurn = 9

// OrderKey returns the order key of a notice key: app:module:id, without the type. On an ordered route, notices with
// the same order key are delivered one after another. They are always in the same shard, whatever their routes.
//
// A suffix of ~ and 1 to 9 digits is removed from the id, unless nothing else is left. So one business id can have
// several notices of a type:
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
	start, id = key[:module+1], key[kind+1:]

	end := len(id)
	for end > 0 && id[end-1] >= '0' && id[end-1] <= '9' {
		end--
	}
	if digits := len(id) - end; digits >= 1 && digits <= maxTurn && end > 1 && id[end-1] == '~' {
		id = id[:end-1]
	}
	return start, id
}
