package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The location of a notice. An instance stores a notice under the prefix of the route that its own
// configuration has for the key. Instances with other configurations may use another prefix. So
// each instance checks every registered prefix of a key before it reports that a notice does not
// exist, and before it creates one.

//go:embed lua/locate.lua
var locateSource string

var locateScript = wire.NewScript("locate", locateSource, false)

// Others returns further prefixes under which other instances may have stored notices of a route, because their routes
// differ. For the route's prefix app1:shop, these may be app1 and app1:shop:paid. Longer prefixes in own are left out:
// own has the prefixes of this instance's routes, to which such notices belong.
func (v *LayoutView) Others(prefix string, own []string) []string {
	var list []string
	for _, p := range v.Prefixes {
		if keys.HasPrefix(prefix, p) || keys.HasPrefix(p, prefix) && !slices.Contains(own, p) {
			list = append(list, p)
		}
	}

	return list
}

// Covering returns the registered prefixes that cover a key, longest first.
func (v *LayoutView) Covering(key string) []string {
	var list []string
	for end := strings.LastIndexByte(key, ':'); end > 0; end = strings.LastIndexByte(key[:end], ':') {
		if _, ok := slices.BinarySearch(v.Prefixes, key[:end]); ok {
			list = append(list, key[:end])
		}
	}

	return list
}

// others is LayoutView.Others for a prefix of this instance and the known layout.
func (s *Layout) others(prefix string) []string {
	if v := s.view.Load(); v != nil {
		return v.beside[prefix]
	}
	return nil
}

// Locate returns the prefix under which each key's record is stored in one shard; empty = none.
func (s *Layout) Locate(ctx context.Context, shard int, prefixes, ks []string) ([]string, error) {
	names := []string{s.space.Moving(shard)}
	for _, p := range prefixes {
		names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: shard}))
	}

	at, err := s.Do(ctx, locateScript, names, wire.Texts(ks)).Int64Slice()
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

// lookUnder returns the prefixes to check for a notice that was not found under prefix looked ("" =
// not looked up yet): all that cover its key, or none if there is no other one.
func (s *Layout) lookUnder(ctx context.Context, shard int, looked, key string) ([]string, error) {
	if looked == "" { // no script has confirmed yet that all prefixes are known
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

// ScanKeys reads the keys of notices under a prefix in one shard, about n at a time. The first
// cursor is 0, and so is the one returned with the last keys.
func (s *Layout) ScanKeys(ctx context.Context, p keys.Partition, cursor uint64, n int64) (ks []string, next uint64, err error) {
	ks, next, err = s.c.HScanNoValues(ctx, s.space.Records(p), cursor, "", n).Result()
	if err == nil {
		return ks, next, nil
	}

	// HSCAN … NOVALUES needs Redis 7.4. Older ones return the values too.
	pairs, next, err := s.c.HScan(ctx, s.space.Records(p), cursor, "", n).Result()
	if err != nil {
		return nil, 0, s.w.Fail("kept", err)
	}

	for i := 0; i < len(pairs); i += 2 {
		ks = append(ks, pairs[i])
	}

	return ks, next, nil
}
