package keys

import "strings"

// ShardKeys names keys of a shard of which one key is known: of all of them the names begin
// with the same text.
type ShardKeys string

// ShardOf is the shard that a key is one of.
func ShardOf(key string) ShardKeys { return ShardKeys(key[:strings.Index(key, "}:")+2]) }

// Layout is [Space.Layout].
func (b ShardKeys) Layout() string { return string(b) + "layout" }

// Ordered is [Space.ShardOrdered].
func (b ShardKeys) Ordered() string { return string(b) + "ordered" }

// Paused is [Space.ShardPaused].
func (b ShardKeys) Paused() string { return string(b) + "paused" }

// Receivers is [Space.ShardReceivers].
func (b ShardKeys) Receivers() string { return string(b) + "receivers" }

// Routes is [Space.ShardRoutes].
func (b ShardKeys) Routes() string { return string(b) + "routes" }

// Confirmed is [Space.Confirmed].
func (b ShardKeys) Confirmed() string { return string(b) + "confirmed" }

// Tag is [Space.Tag].
func (b ShardKeys) Tag() string { return string(b[strings.LastIndexByte(string(b), '{')+1 : len(b)-2]) }

// ShadowPrefix is the prefix of the notices in a shadow.
func ShadowPrefix(shadow string) string {
	_, prefix, _ := strings.Cut(shadow, "}:shadow:")
	return prefix
}
