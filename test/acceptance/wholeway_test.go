package acceptance

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/test/record"
)

// taken is the way to Redis that the suite takes, and what has taken it. It is a variable
// of the package because the tests have nothing else in common.
var taken journey

type journey struct {
	way *way // nil: as anyone
	all bool // no test was left out by a flag
	at  time.Time

	mu     sync.Mutex
	env    map[string][]string // by URL
	failed map[string]bool     // by each test that has started a Redis
	again  []string            // which failed, and passed without the others
	server string              // its version
}

// note notes a test that is about to start a Redis, which may fail.
func (j *journey) note(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, there := j.failed[name]; !there {
		j.failed[name] = false
	}
	t.Cleanup(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.failed[name] = j.failed[name] || t.Failed()
	})
}

// put notes a Redis that a test has started.
func (j *journey) put(t testing.TB, db *database) {
	t.Helper()
	version := versionOf(t, db.servers[0].Client())
	j.mu.Lock()
	defer j.mu.Unlock()
	j.env[db.url], j.server = db.env, version
}

func (j *journey) envOf(url string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.env[url]
}

// begin has the tests take the way that the environment names, without those that
// cannot.
func (j *journey) begin() error {
	flag.Parse()
	name := os.Getenv(envWay)
	if name == "" {
		return nil
	}
	all := ways()
	i := slices.IndexFunc(all, func(w way) bool { return w.flag == name })
	if i < 0 {
		return fmt.Errorf("%s=%s: there is no such way to Redis", envWay, name)
	}
	skip := flag.Lookup("test.skip")
	j.way, j.at, j.env, j.failed = &all[i], time.Now(), map[string][]string{}, map[string]bool{}
	j.all = skip.Value.String() == "" && flag.Lookup("test.run").Value.String() == ""
	var out []string
	for _, x := range staying {
		if x.stays(*j.way) {
			out = append(out, x.test)
		}
	}
	return skip.Value.Set(strings.Join(append(slices.DeleteFunc([]string{skip.Value.String()}, func(s string) bool { return s == "" }),
		"^("+strings.Join(out, "|")+")$"), "|"))
}

// mostAgain is how many failed tests of a whole way run once more.
const mostAgain = 5

// run runs the tests. On a way, the few that failed run once more without the others: the
// suite is long, and what fails by itself too is no matter of a busy machine. The row
// names both.
func (j *journey) run(tests func() int) int {
	code := tests()
	if j.way == nil || !j.all || code != 1 {
		return code
	}
	again := j.failing()
	if len(again) == 0 || len(again) > mostAgain {
		return code
	}
	fmt.Printf("acceptance: once more: %s\n", strings.Join(again, ", "))
	if err := flag.Set("test.run", "^("+strings.Join(again, "|")+")$"); err != nil {
		return code
	}
	for _, name := range again {
		delete(j.failed, name)
	}
	code = tests()
	for _, name := range again {
		if failed, ran := j.failed[name]; ran && !failed {
			j.again = append(j.again, name)
		}
	}
	return code
}

// failing are the tests that have failed.
func (j *journey) failing() (names []string) {
	for name, failed := range j.failed {
		if failed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// end records the run, of which code is the exit code, and is an error if a test that ran
// has no Redis on the way, or failed without the row saying so.
func (j *journey) end(code int) error {
	if j.way == nil || !j.all {
		return nil
	}
	out, err := exec.CommandContext(context.Background(), os.Args[0], "-test.list", ".").Output()
	if err != nil {
		return fmt.Errorf("list the tests: %w", err)
	}
	row := record.Way{No: 1 + slices.IndexFunc(ways(), func(w way) bool { return w.flag == j.way.flag }), Way: j.way.name,
		Settings: strings.Join(j.settings(), ", "), Again: j.again, Server: j.server, From: j.at}
	var idle []string
	for _, name := range strings.Fields(string(out)) {
		failed, ran := j.failed[name]
		switch {
		case slices.ContainsFunc(staying, func(x stay) bool { return x.test == name && x.stays(*j.way) }):
			row.Elsewhere++
		case !ran:
			idle = append(idle, name)
		case failed:
			row.Failed = append(row.Failed, name)
		default:
			row.Passed++
		}
	}
	if code != 0 && len(row.Failed) == 0 {
		return errors.New("what failed is none of the tests that started a Redis; no row is written")
	}
	if err := row.Put(); err != nil {
		return err
	}
	if len(idle) > 0 {
		return fmt.Errorf("%s started no Redis by newRedis: what cannot go every way stands in `staying`, with the reason",
			strings.Join(idle, ", "))
	}
	return nil
}

// settings are those of the environment that are not paths of this run.
func (j *journey) settings() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, env := range j.env {
		return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.Contains(v, "_FILE=") })
	}
	return nil
}

// stay is a test that does not go every way to Redis.
type stay struct {
	test, why string
	not       []string // the flags of the ways; none: no way
}

func (s stay) stays(w way) bool { return len(s.not) == 0 || slices.Contains(s.not, w.flag) }

// The reasons that several tests have.
const (
	ownServers = "starts servers of its own, whose fault it is about"
	ownWays    = "goes each way by itself"
	noRedis    = "needs no Redis, or the emulated one"
)

var (
	clusters   = []string{"cluster", "cluster-tls"}
	notAlone   = append([]string{"sentinel"}, clusters...)
	notThrough = append([]string{"tls"}, notAlone...)
)

// staying are the tests that cannot go every way, and why.
var staying = []stay{
	{"TestTimersAreAdoptedWhileAMasterHangs", ownServers, nil},
	{"TestOnTimeInACluster", ownServers, nil},
	{"TestCallsForOneNoticeWhileAMasterHangs", ownServers, nil},
	{"TestAFleetOutlivesAFailover", ownServers, nil},
	{"TestMigrateToAClusterAndBack", ownServers, nil},
	{"TestMigrateToAClockThatIsOff", ownServers, nil},
	{"TestAnswersWithoutTheNodeThatHangs", ownServers, nil},
	{"TestPagesWithoutTheNodeThatHangs", ownServers, nil},
	{"TestOneOfThreeMastersHangs", ownServers, nil},
	{"TestANodeIsPausedThrice", ownServers, nil},
	{"TestOneOfThreeMastersIsDead", ownServers, nil},
	{"TestASlotIsHalfMoved", ownServers, nil},
	{"TestAPartitionUnderSentinel", ownServers, nil},
	{"TestPowerCuts", ownServers, nil},
	{"TestEntriesOfAListInAClusterComeOnce", ownServers, nil},
	{"TestAReplayInAClusterIsSentOnce", ownServers, nil},
	{"TestReshardInACluster", ownServers, nil},
	{"TestAMasterThatIsBackAmidItsFailover", ownServers, nil},
	{"TestAFailoverByHand", ownServers, nil},
	{"TestAFailoverThatIsGivenUp", ownServers, nil},
	{"TestAStaleMasterOfAClusterConfirmsNothing", ownServers, nil},
	{"TestAClusterNodeStopsForSeconds", ownServers, nil},
	{"TestSentinelsMasterIsKilled", ownServers, nil},
	{"TestAClustersMasterIsKilled", ownServers, nil},
	{"TestAServerOfTheMatrix", "measures servers alone and as a cluster", nil},
	{"TestLevelsOfDurability", "measures levels of durability, each with servers of its own", nil},
	{"TestThreeMastersShareTheWork", "measures a cluster against one Redis", nil},
	{"TestMigrateEveryWayToRedis", ownWays, nil},
	{"TestTheMainPathEveryWayToRedis", ownWays, nil},
	{"TestAClockThatNobodyHasSetIsSaid", noRedis, nil},
	{"TestWrongConfigurationIsSaidAtOnce", noRedis, nil},
	{"TestExamples", noRedis, nil},
	{"TestWhatStaysIsThere", noRedis, nil},
	{"TestATestWhoseRedisDoesNotStartHasFailed", noRedis, nil},
	{"TestEachLineOfTheLogThroughAPipeIsJSON", "has a Redis that is refused at once, and one that is not there", nil},
	{"TestPagesAmongAMillionNotices", "measures how long the scripts of pages hold one Redis, and writes it down", nil},
	{"TestFiftyDashboards", "measures what dashboards cost one Redis, and writes it down", nil},
	{"TestSilentSubscription", "stands between the service and one address, and reads what goes through", notThrough},
	{"TestAVersionBeforeTheFleetBesideThisOne", "the version before spoke to one shard, with the timers in its slot", clusters},
	{"TestWhatIsWrittenIntoAFormerShardIsDelivered", "the version before spoke to one shard, with the timers in its slot", clusters},
	{"TestReshardUnderLoad", "TestReshardInACluster does it there", clusters},
}

// Each name in the table is that of a test, stands there once, and has a reason.
func TestWhatStaysIsThere(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
	}
	if err := sound(staying, there, ways()); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][]stay{
		{{"TestOfNothing", ownServers, nil}},
		{{"TestExamples", noRedis, nil}, {"TestExamples", noRedis, nil}},
		{{"TestExamples", "", nil}},
		{{"TestExamples", noRedis, []string{"pigeon"}}},
	} {
		if sound(wrong, there, ways()) == nil {
			t.Errorf("nothing is said of %v", wrong)
		}
	}
}

// unstarted is a test whose Redis does not start.
type unstarted struct {
	testing.TB
	cleanup func()
}

func (u *unstarted) Name() string     { return "TestX/sub" }
func (u *unstarted) Failed() bool     { return true }
func (u *unstarted) Cleanup(f func()) { u.cleanup = f }

// A test is counted whether its Redis starts or not, and after a subtest whose Redis did.
func TestATestWhoseRedisDoesNotStartHasFailed(t *testing.T) {
	for _, failed := range []map[string]bool{{}, {"TestX": false}} {
		j := &journey{failed: failed}
		u := &unstarted{TB: t}
		j.note(u)
		u.cleanup()
		if got := j.failing(); !slices.Equal(got, []string{"TestX"}) {
			t.Errorf("%v", got)
		}
	}
}

// sound says what is wrong with a table.
func sound(table []stay, there map[string]bool, all []way) error {
	var wrong []error
	seen := map[string]bool{}
	for _, x := range table {
		switch {
		case !there[x.test]:
			wrong = append(wrong, fmt.Errorf("there is no test %s", x.test))
		case seen[x.test]:
			wrong = append(wrong, fmt.Errorf("%s stands twice", x.test))
		case x.why == "":
			wrong = append(wrong, fmt.Errorf("%s has no reason", x.test))
		}
		seen[x.test] = true
		for _, name := range x.not {
			if !slices.ContainsFunc(all, func(w way) bool { return w.flag == name }) {
				wrong = append(wrong, fmt.Errorf("%s: there is no way %s", x.test, name))
			}
		}
	}
	return errors.Join(wrong...)
}

// versionOf is a server's name and version.
func versionOf(t testing.TB, c *redis.Client) string {
	t.Helper()
	about := c.InfoMap(t.Context(), "server").Val()["Server"]
	if v := about["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + cmp.Or(about["redis_version"], "?")
}

// endings are how many wait in the shards of a space.
func endings(ctx context.Context, c redis.UniversalClient, s keys.Space) (n int64) {
	for shard := range s.Shards {
		n += c.LLen(ctx, s.Ended(shard)).Val()
	}
	return n
}
