package listener

import (
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
)

// unfit logs timers under the prefix of a route whose keys can never be notices: their producers
// wait for a callback that never comes. It logs the first such key of each route.
type unfit struct {
	mu     sync.Mutex
	logged map[string]bool // by prefix
}

// report logs a key that is not a notice key. It ignores keys without a route, because they belong to
// other programs.
func (u *unfit) report(routes *route.Table, key string, logger *zap.Logger) {
	r := routeAbove(routes, key)
	if r == nil {
		return
	}

	u.mu.Lock()
	before := u.logged[r.Prefix]
	if !before && u.logged == nil {
		u.logged = map[string]bool{}
	}

	u.logged[r.Prefix] = true
	u.mu.Unlock()
	if before {
		return
	}

	_, err := keys.Parse(key)
	logger.Warn("a timer under a route's prefix has a key that no notice can have, nothing is delivered, more such keys are not logged",
		zap.String("key", shortened(key)), zap.String("route", r.Name), zap.String("prefix", r.Prefix),
		zap.String("why", shortened(fmt.Sprint(err))),
		zap.String("remedy",
			"name it app:module:type:id, segments of letters, digits, '_', '.', '~' and '-'; or give it another prefix, if it is not meant for "+
				"this service"))
}

// routeAbove returns the route with the longest prefix of a key, whatever the key's form.
func routeAbove(routes *route.Table, key string) *route.Route {
	var above *route.Route
	end := 0
	for range 3 {
		next := strings.IndexByte(key[end:], ':')
		if next < 0 {
			break
		}

		end += next
		if r := routes.Prefix(key[:end]); r != nil {
			above = r
		}

		end++
	}

	return above
}

// shortened bounds the length of a foreign key in the log.
func shortened(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}

	return s
}
