package layout

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

// What an instance must know before it may write, and how it comes to know it:
//
// Layout version and shard count stand in notifier:meta. A copy of them, and
// every prefix that any configuration ever had, stand in each shard's own slot
// (…:layout, …:routes), with a digest of all that: the state. The scripts begin
// with guard.lua, which compares the state with the one their instance knows, in
// the same step with what they write. So nothing is written, claimed or moved
// in a Redis that is another one than was looked at before, whoever put it in
// the first one's place and however (another run id, another address behind the
// same name, a proxy, a restored backup, FLUSHALL), and nobody writes without
// knowing under which prefixes a notice may lie. A failover to a replica that
// has the data costs nothing.
//
// A script that is refused makes its instance learn: it registers its own
// prefixes, reads all, and looks at notifier:meta; then the script is tried
// again. The prefixes of a shard only grow, so instances that learn from one
// another come to an end.

//go:embed lua/guard.lua
var guardSource string

// Version is that of what stands in Redis; a different one is refused.
const Version = 1

// ErrLayout says that what stands in Redis was written with other settings.
var ErrLayout = errors.New("the data in Redis has another layout")

// View is what a Store knows of the layout, and its scripts as they must be
// sent while that is so. It never changes.
type View struct {
	State    string
	Prefixes []string // sorted
	forms    map[*wire.Script]wire.Forms
	beside   map[string][]string // by own prefix: see others
	history  int                 // endings that a shard holds at most for history; 0 = there is none
	First    int                 // the first place that is a shard: see keys.Space
	whole    bool                // the places before that hold nothing: see places.go
	Side     Side
}

var guardCode = wire.Prelude(guardSource)

// Beside returns Others of one of this instance's own prefixes.
func (v *View) Beside(prefix string) []string { return v.beside[prefix] }

func newView(state string, prefixes, own []string, side Side) *View {
	scripts := wire.Guarded()
	v := &View{State: state, Prefixes: prefixes, Side: side, forms: make(map[*wire.Script]wire.Forms, len(scripts)), beside: make(map[string][]string, len(own))}
	for _, p := range own {
		v.beside[p] = v.Others(p, own)
	}
	guard := strings.Replace(guardCode, "<state>", state, 1)
	for _, sc := range scripts {
		v.forms[sc] = wire.NewForms(sc.Op, guard+side.guard(sc)+sc.Source())
	}
	return v
}

// Discover says how many shards there are, and their tags: what notifier:meta has
// where want.Shards is 0 or names a count that a reshard has replaced (of which warning
// tells), else want.Shards, or 1. Before the first start of all the tags of a cluster
// are those that the first start will write. In a cluster whose master of notifier:meta
// is away, a shard's copy says it. It writes nothing.
func Discover(ctx context.Context, c redis.UniversalClient, want keys.Space, cluster bool) (found keys.Space, warning string, err error) {
	found = keys.Space{Namespace: want.Namespace}
	name := found.Meta()
	meta, err := readMeta(ctx, c, name, cluster)
	if cluster && errors.Is(err, wire.ErrUnavailable) {
		meta, err = copied(ctx, c, want, err)
	}
	if err != nil {
		return found, "", err
	}
	if len(meta) == 0 {
		if found.Shards = max(want.Shards, 1); cluster {
			found.Tags = keys.SpreadTags(found.Shards)
		}
		return found, "", nil
	}
	// The version first: the count of another layout says nothing.
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
		return found, fmt.Sprintf("NOTIFIER_SHARDS=%d names a count that a reshard has replaced; %s says %d, which holds: "+
			"set NOTIFIER_SHARDS=%d, or remove the variable", want.Shards, name, found.Shards, found.Shards), nil
	}
	return found, "", checkMeta(meta, want)
}

// spaceOf reads what notifier:meta says.
func spaceOf(namespace string, meta map[string]string) (found keys.Space, err error) {
	found.Namespace = namespace
	name := found.Meta()
	found.Shards, err = strconv.Atoi(meta["shards"])
	if err != nil || found.Shards < 1 {
		return found, fmt.Errorf("%w: %s says %q shards, which is no count; another program may use that key: choose another NOTIFIER_NAMESPACE",
			ErrLayout, name, meta["shards"])
	}
	if found.Tags, err = keys.ParseTags(meta["tags"], found.Shards); err != nil {
		return found, fmt.Errorf("%w: the tags of %s are wrong (%w); another program may use that key: choose another NOTIFIER_NAMESPACE", ErrLayout, name, err)
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
		return found, fmt.Errorf("%w: the former shards of %s are wrong (%w); another program may use that key: choose another NOTIFIER_NAMESPACE", ErrLayout, name, err)
	}
	found.Replaced = replaced
	return found, nil
}

// readMeta reads notifier:meta, or a shard's copy of it. In a cluster it does not wait
// long, since others have copies.
func readMeta(ctx context.Context, c redis.UniversalClient, name string, cluster bool) (map[string]string, error) {
	if cluster {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wire.NodeTimeout)
		defer cancel()
	}
	meta, err := c.HGetAll(ctx, name).Result()
	return meta, wire.Wrap("meta", err)
}

// mostLooked is up to which count of shards the copies are found where the count is not
// known.
const mostLooked = 16

// copies are the names of copies of notifier:meta, of which those at nodes that answer
// say how many shards there are.
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
			add(n, keys.SpreadTags(n), 0, n-1) // they are far from each other, so on two masters
		}
		return names
	}
	for shard := range want.Shards {
		add(want.Shards, keys.SpreadTags(want.Shards), shard)
		add(want.Shards, nil, shard)
	}
	return names
}

// copiesOr yields names, and then those that are looked for only when none of them will
// do.
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

// searchTime is how long the nodes of a cluster are searched for a copy.
const searchTime = 10 * time.Second

// searched are the copies that nodes which answer have under whatever tag: the last
// resort where tags are neither numbers nor those of a first start, as after a reshard.
// It goes through all keys there.
func searched(ctx context.Context, c redis.UniversalClient, want keys.Space) []string {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	first, last, _ := strings.Cut(keys.Space{Namespace: want.Namespace, Shards: 1, Tags: []string{"*"}}.Layout(0), "{*}")
	var mu sync.Mutex
	var names []string
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error {
		for cursor := uint64(0); ; {
			part, cancel := context.WithTimeout(ctx, wire.NodeTimeout)
			some, next, err := m.Scan(part, cursor, first+"{*}"+last, searchStep).Result()
			cancel()
			mu.Lock()
			names = append(names, some...)
			enough := len(names) > 0
			mu.Unlock()
			if cursor = next; err != nil || enough || cursor == 0 {
				return nil // others may have one
			}
		}
	})
	return names
}

// searchStep is how many keys one SCAN goes through: about a millisecond.
const searchStep = 2000

// copied is a shard's copy of what notifier:meta says, whose node is away for the
// reason why. A copy does not know which counts have been replaced: where it says
// another one than is wanted, notifier:meta has to be waited for.
func copied(ctx context.Context, c redis.UniversalClient, want keys.Space, why error) (map[string]string, error) {
	for name := range copiesOr(copies(want), func() []string { return searched(ctx, c, want) }) {
		meta, err := readMeta(ctx, c, name, true)
		if err != nil || len(meta) == 0 {
			continue
		}
		if found := meta["shards"]; want.Shards != 0 && found != strconv.Itoa(want.Shards) {
			return nil, fmt.Errorf("%w; the copy in %s says %s shards, NOTIFIER_SHARDS is %d", why, name, found, want.Shards)
		}
		return meta, nil
	}
	return nil, why
}

// checkMeta compares what notifier:meta says with this program and its
// settings.
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
		return fmt.Errorf("%w: %s says the former tags %q, and this instance has found %q; restart it", ErrLayout, s.Meta(), meta["former"], former)
	}
	return nil
}

func checkVersion(name string, meta map[string]string) error {
	if meta["layout"] != strconv.Itoa(Version) {
		return fmt.Errorf("%w: %s says layout %q, this program writes %d; run the version that wrote it, or another NOTIFIER_NAMESPACE",
			ErrLayout, name, meta["layout"], Version)
	}
	return nil
}
