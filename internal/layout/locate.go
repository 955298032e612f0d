package layout

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Where a notice lies. An instance writes a notice under the prefix of the route
// that its own configuration gives the key; instances of other configurations
// give it another one, so each looks under every registered prefix that covers
// the key before it says that there is none, and before it makes one.

//go:embed lua/locate.lua
var locateSource string

var locateScript = wire.NewScript("locate", locateSource, false)

// Others returns the registered prefixes besides prefix under which its notices may be
// stored: shorter ones, and longer ones that are not in own. This instance would have
// stored a notice of a longer one of its own there.
func (v *View) Others(prefix string, own []string) []string {
	var list []string
	for _, p := range v.Prefixes {
		if keys.HasPrefix(prefix, p) || keys.HasPrefix(p, prefix) && !slices.Contains(own, p) {
			list = append(list, p)
		}
	}
	return list
}

// Covering returns the registered prefixes that cover a key, the longest first.
func (v *View) Covering(key string) []string {
	var list []string
	for end := strings.LastIndexByte(key, ':'); end > 0; end = strings.LastIndexByte(key[:end], ':') {
		if _, ok := slices.BinarySearch(v.Prefixes, key[:end]); ok {
			list = append(list, key[:end])
		}
	}
	return list
}

// Others is View.Others of a prefix of this instance, by what is known now.
func (s *Layout) Others(prefix string) []string {
	if v := s.view.Load(); v != nil {
		return v.beside[prefix]
	}
	return nil
}

// Locate returns for each key of one shard the prefix under which its record is stored,
// empty = none.
func (s *Layout) Locate(ctx context.Context, shard int, prefixes, ks []string) ([]string, error) {
	records := make([]string, len(prefixes))
	for i, p := range prefixes {
		records[i] = s.space.Records(keys.Partition{Prefix: p, Shard: shard})
	}
	args := make([]any, len(ks))
	for i, k := range ks {
		args[i] = k
	}
	at, err := s.w.Do(ctx, locateScript, records, args).Int64Slice()
	if err != nil {
		return nil, s.w.Fail("locate", err)
	}
	if len(at) != len(ks) {
		return nil, s.w.Fail("locate", fmt.Errorf("a reply of %d parts to %d keys", len(at), len(ks)))
	}
	out := make([]string, len(ks))
	for i, n := range at {
		if n > 0 && int(n) <= len(prefixes) {
			out[i] = prefixes[n-1]
		}
	}
	return out, nil
}

// LookUnder returns the prefixes to look under for a notice that was not found where
// it was looked for first ("" = nowhere yet): all that cover its key, if there is
// another one.
func (s *Layout) LookUnder(ctx context.Context, shard int, looked, key string) ([]string, error) {
	if looked == "" { // no script has told yet whether all prefixes are known
		if err := s.known(ctx, shard); err != nil {
			return nil, err
		}
	}
	v := s.view.Load()
	if v == nil {
		return nil, nil
	}
	all := v.Covering(key)
	if len(all) == 1 && all[0] == looked {
		return nil, nil
	}
	return all, nil
}
