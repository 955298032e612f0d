package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The layout that an instance must know before it writes, and how it learns it.
//
// notifier:meta holds the layout version and the number of shards. Each shard's slot has a copy of
// both and every prefix that any configuration has registered (…:layout, …:routes), with a digest
// of all of it: the state. Guarded scripts begin with guard.lua, which compares the state with the
// one that their instance knows, in the same step with their writes.
//
// So no notice is written, claimed or moved in a Redis with another layout than the one that was
// read. That holds however the Redis was replaced: another address behind the same name, a proxy, a
// restored backup, FLUSHALL. And no instance writes without knowing all prefixes under which a
// notice may be stored. A failover to a replica with the data costs nothing.
//
// An instance whose script is refused registers its own prefixes, reads the layout and
// notifier:meta, and sends the script again. The prefixes of a shard only grow, so instances that
// learn from each other come to an end.

//go:embed lua/lib/guard.lua
var guardSource string

// Version is the version of the data in Redis; data with a different one are refused. deploy/schedule.lua
// has the number too, which a test compares.
const Version = 3

// ErrLayout is returned if the data in Redis were written with other settings.
var ErrLayout = errors.New("the data in Redis has another layout")

// LayoutView is a known layout, with the scripts that match it. It is immutable.
type LayoutView struct {
	State    string
	Prefixes []string        // sorted
	members  []string        // Prefixes and their records, sorted: see recorded.go
	recorded []string        // prefixes that are recorded for workers, sorted
	foreign  map[string]bool // those of recorded that this instance does not handle; nil = none
	forms    map[*wire.Script]wire.Forms
	beside   map[string][]string // Others, by own prefix
	history  int                 // maximum number of entries in a shard's outbox; 0 = no history
	first    int                 // first place that is a current shard: see keys.Space
	whole    bool                // the old shards are empty: see places.go
	Side     Side
}

var guardCode = wire.Prelude(guardSource)

// Beside returns the precomputed Others of a prefix of this instance, or of a recorded one.
func (v *LayoutView) Beside(prefix string) []string { return v.beside[prefix] }

func newView(state string, members, own, handles []string, side Side) *LayoutView {
	scripts := wire.Guarded()
	v := &LayoutView{State: state, Prefixes: barePrefixes(members), members: members, Side: side,
		forms: make(map[*wire.Script]wire.Forms, len(scripts)), beside: make(map[string][]string, len(own))}
	v.setRecorded(handles)
	for _, p := range slices.Concat(own, v.recorded) {
		v.beside[p] = v.Others(p, own)
	}

	guard := strings.Replace(guardCode, "<state>", state, 1)
	for _, sc := range scripts {
		v.forms[sc] = wire.NewForms(sc.Op, guard+side.guard(sc)+sc.Source())
	}

	return v
}

// Discover reads the number of shards (parts of the data) in Redis, and their hash tags, which select a cluster's slot.
// It writes nothing. If Redis has no data yet, found has the shards that the first start will create: want.Shards, or
// one if that is 0. Otherwise the result depends on want.Shards, the configured number:
//
//	0, or the number in Redis            the shards in Redis
//	a number that a reshard has changed  the shards in Redis; warning names the number to configure
//	any other number                     err describes the difference
func Discover(ctx context.Context, c redis.Cmdable, want keys.Space, cluster bool) (found keys.Space, warning string, err error) {
	found = keys.Space{Namespace: want.Namespace}
	// If the node of notifier:meta is unreachable, a shard's copy is read instead.
	name := found.Meta()
	meta, err := readMeta(ctx, c, name, cluster)
	if cluster && errors.Is(err, wire.ErrUnavailable) {
		meta, err = copied(ctx, c, want, err)
	}

	if err != nil {
		return found, "", err
	}

	if !Begun(meta) {
		if found.Shards = max(want.Shards, 1); cluster {
			found.Tags = keys.SpreadTags(found.Shards)
		}
		return found, "", nil
	}

	// The version first: another version may define the count differently.
	if err := checkVersion(name, meta); err != nil {
		return found, "", err
	}
	if found, err = spaceOf(want.Namespace, meta); err != nil {
		return found, "", err
	}

	switch {
	case want.Shards == 0 || want.Shards == found.Shards:
		return found, "", nil
	case slices.Contains(strings.Split(meta["replaced"], ","), strconv.Itoa(want.Shards)):
		return found, fmt.Sprintf("NOTIFIER_SHARDS=%d is a number that a reshard has replaced; %s has %d: "+
			"set NOTIFIER_SHARDS=%d, or remove the variable", want.Shards, name, found.Shards, found.Shards), nil
	}

	return found, "", checkMeta(meta, want)
}

// spaceOf returns the shards in a copy of notifier:meta.
func spaceOf(namespace string, meta map[string]string) (found keys.Space, err error) {
	found.Namespace = namespace
	name := found.Meta()
	found.Shards, err = strconv.Atoi(meta["shards"])
	if err != nil || found.Shards < 1 {
		return found, fmt.Errorf("%w: the shard count %[3]q in %[2]s is not a number; another program may use that key: "+
			"choose another NOTIFIER_NAMESPACE", ErrLayout, name, meta["shards"])
	}

	if found.Tags, err = keys.ParseTags(meta["tags"], found.Shards); err != nil {
		return found, fmt.Errorf("%w: the tags of %s are wrong (%w); another program may use that key: choose another NOTIFIER_NAMESPACE",
			ErrLayout, name, err)
	}

	if meta["former"] == "" {
		return found, nil
	}

	replaced, ok := keys.ParseCounts(meta["replaced"])
	total := 0
	for _, n := range replaced {
		total += n
	}

	if found.Former, err = keys.ParseTags(meta["former"], total); err != nil || !ok {
		return found, fmt.Errorf("%w: the old shards in %s are invalid (%w); another program may use that key: "+
			"choose another NOTIFIER_NAMESPACE", ErrLayout, name, err)
	}

	found.Replaced = replaced
	return found, nil
}

// readMeta reads notifier:meta, or a shard's copy of it. In a cluster the timeout is short, since
// other nodes have copies.
func readMeta(ctx context.Context, c redis.Cmdable, name string, cluster bool) (map[string]string, error) {
	if cluster {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wire.NodeTimeout)
		defer cancel()
	}

	meta, err := c.HGetAll(ctx, name).Result()
	return meta, wire.Wrap("meta", err)
}

// mostLooked is the largest shard count for which copies are found without knowing the count.
const mostLooked = 16

// copies returns the names of copies of notifier:meta. The first one whose node answers has the
// number of shards.
func copies(want keys.Space) []string {
	var names []string
	add := func(n int, tags []string, shards ...int) {
		for _, shard := range shards {
			names = append(names, keys.Space{Namespace: want.Namespace, Shards: n, Tags: tags}.Layout(shard))
		}
	}
	if want.Shards == 0 {
		for shard := range mostLooked {
			add(mostLooked, nil, shard)
		}

		for n := 2; n <= mostLooked; n++ {
			add(n, keys.SpreadTags(n), 0, n-1) // shards far apart are on two masters
		}

		return names
	}

	for shard := range want.Shards {
		add(want.Shards, keys.SpreadTags(want.Shards), shard)
		add(want.Shards, nil, shard)
	}

	return names
}

// copiesOr yields names, and then the result of more, which is called only if needed.
func copiesOr(names []string, more func() []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range names {
			if !yield(name) {
				return
			}
		}
		for _, name := range more() {
			if !yield(name) {
				return
			}
		}
	}
}

// searchTime is the time limit for the search of a cluster's nodes for a copy.
const searchTime = 10 * time.Second

// searched returns the names of copies under any tag, by scanning all keys of the reachable nodes.
// It is the last resort, for tags that were assigned by a reshard.
func searched(ctx context.Context, c redis.Cmdable, want keys.Space) []string {
	masters := wire.Masters(c)
	if masters == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	first, last, _ := strings.Cut(keys.Space{Namespace: want.Namespace, Shards: 1, Tags: []string{"*"}}.Layout(0), "{*}")
	var mu sync.Mutex
	var names []string
	_ = masters(ctx, func(ctx context.Context, m redis.Cmdable) error {
		for cursor := uint64(0); ; {
			part, cancel := context.WithTimeout(ctx, wire.NodeTimeout)
			some, next, err := m.Scan(part, cursor, first+"{*}"+last, searchStep).Result()
			cancel()
			mu.Lock()
			names = append(names, some...)
			enough := len(names) > 0
			mu.Unlock()
			if cursor = next; err != nil || enough || cursor == 0 {
				return nil // other nodes may have a copy
			}
		}
	})
	return names
}

// searchStep is the COUNT of one SCAN: about a millisecond.
const searchStep = 2000

// copied returns a shard's copy of notifier:meta, whose node is unreachable with the error why. It fails if the copy
// has another number of shards than want.Shards, unless that is 0.
func copied(ctx context.Context, c redis.Cmdable, want keys.Space, why error) (map[string]string, error) {
	for name := range copiesOr(copies(want), func() []string { return searched(ctx, c, want) }) {
		meta, err := readMeta(ctx, c, name, true)
		if err != nil || len(meta) == 0 {
			continue
		}
		// The copy lacks the numbers that reshards have replaced, one of which would be accepted. So the caller waits
		// for notifier:meta.
		if found := meta["shards"]; want.Shards != 0 && found != strconv.Itoa(want.Shards) {
			return nil, fmt.Errorf("%w; the copy in %s says %s shards, NOTIFIER_SHARDS is %d", why, name, found, want.Shards)
		}

		return meta, nil
	}
	return nil, why
}

// checkMeta compares notifier:meta with the version and settings of this program.
func checkMeta(meta map[string]string, s keys.Space) error {
	if err := checkVersion(s.Meta(), meta); err != nil {
		return err
	}

	if meta["shards"] != strconv.Itoa(s.Shards) {
		return fmt.Errorf("%w: %s says %s shards, NOTIFIER_SHARDS is %d; set NOTIFIER_SHARDS=%s, or use another NOTIFIER_NAMESPACE",
			ErrLayout, s.Meta(), meta["shards"], s.Shards, meta["shards"])
	}

	if tags := strings.Join(s.Tags, ","); meta["tags"] != tags {
		return fmt.Errorf("%w: %s says the tags %q, and this instance has found %q; restart it", ErrLayout, s.Meta(), meta["tags"], tags)
	}

	if former := strings.Join(s.Former, ","); meta["former"] != former {
		return fmt.Errorf("%w: %s says the former tags %q, and this instance has found %q; restart it", ErrLayout, s.Meta(), meta["former"],
			former)
	}

	return nil
}

func checkVersion(name string, meta map[string]string) error {
	if meta["layout"] != strconv.Itoa(Version) {
		return fmt.Errorf("%w: %s says layout %q, this program writes %d; %s", ErrLayout, name, meta["layout"], Version,
			VersionRemedy(meta["layout"]))
	}
	return nil
}

// VersionRemedy returns the remedy for data with another layout version.
func VersionRemedy(version string) string {
	remedy := "run the version that wrote it, or choose another NOTIFIER_NAMESPACE"
	if version == "2" {
		remedy += "; docs/upgrade.md#from-layout-2-to-3 lists the steps to take the notices along"
	}

	return remedy
}

// Begun reports whether a copy of notifier:meta is of data that an instance has written. The data
// identity alone is what remains when the data have been deleted to be imported again.
func Begun(meta map[string]string) bool {
	_, identified := meta["id"]
	return len(meta) > 1 || len(meta) == 1 && !identified
}
