package listener

import (
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
)

// unfit tells of timers under the prefix of a route that can never be notices:
// whoever sets them waits for a callback that does not come. Each route's are
// told once, so that it holds as many entries as there are routes.
type unfit struct {
	mu   sync.Mutex
	told map[string]bool // by prefix
}

// tell looks at a key that is no notice key. Keys that lie under no route's
// prefix are somebody else's.
func (u *unfit) tell(routes *route.Table, key string, logger *zap.Logger) {
	r := routeAbove(routes, key)
	if r == nil {
		return
	}
	u.mu.Lock()
	before := u.told[r.Prefix]
	if !before && u.told == nil {
		u.told = map[string]bool{}
	}
	u.told[r.Prefix] = true
	u.mu.Unlock()
	if before {
		return
	}
	_, err := keys.Parse(key)
	logger.Warn("a timer under a route's prefix expired that can be no notice; nothing is delivered, and others like it are not told",
		zap.String("key", shortened(key)), zap.String("route", r.Name), zap.String("prefix", r.Prefix),
		zap.String("why", shortened(fmt.Sprint(err))),
		zap.String("remedy",
			"name it app:module:type:id, segments of letters, digits, '_', '.', '~' and '-'; or give it another prefix, if it is not meant for "+
				"this service"))
}

// routeAbove is the route of the longest prefix above a key of any form.
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

// shortened bounds what of a stranger's key comes into the log.
func shortened(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
