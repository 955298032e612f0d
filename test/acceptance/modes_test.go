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

// taken is the connection mode of the suite and the state of its run. It is a variable of
// the package, because the tests share nothing else.
var taken journey

type journey struct {
	way *way // nil: standalone, with all rights
	all bool // no flag excludes tests
	at  time.Time

	mu     sync.Mutex
	env    map[string][]string // by URL
	failed map[string]bool     // by each test that has started a Redis
	again  []string            // tests that failed, and passed in a second run without the others
	server string              // the version of Redis
}

// note records a test before it starts a Redis, because the start may fail.
func (j *journey) note(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.failed[name]; !ok {
		j.failed[name] = false
	}
	t.Cleanup(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.failed[name] = j.failed[name] || t.Failed()
	})
}

// put records a Redis that a test has started.
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

// begin selects the connection mode that the environment names, and excludes the tests that
// cannot run in that mode.
func (j *journey) begin() error {
	flag.Parse()
	name := os.Getenv(envWay)
	if name == "" {
		return nil
	}
	all := ways()
	i := slices.IndexFunc(all, func(w way) bool { return w.flag == name })
	if i < 0 {
		return fmt.Errorf("%s=%s: no such connection mode", envWay, name)
	}
	skip := flag.Lookup("test.skip")
	j.way, j.at, j.env, j.failed = &all[i], time.Now(), map[string][]string{}, map[string]bool{}
	j.all = skip.Value.String() == "" && flag.Lookup("test.run").Value.String() == ""
	var out []string
	for _, x := range exclusions {
		if x.excludes(*j.way) {
			out = append(out, x.test)
		}
	}
	return skip.Value.Set(strings.Join(append(slices.DeleteFunc([]string{skip.Value.String()}, func(s string) bool { return s == "" }),
		"^("+strings.Join(out, "|")+")$"), "|"))
}

// mostAgain is the maximum number of failed tests of a mode that run once more.
const mostAgain = 5

// run runs the tests. In a connection mode, a few failed tests run once more without the
// others. A test that fails again does not fail because of a busy machine. The row names the
// tests that failed twice, and those that passed the second time.
func (j *journey) run(tests func() int) int {
	code := tests()
	if j.way == nil || !j.all || code != 1 {
		return code
	}
	again := j.failing()
	if len(again) == 0 || len(again) > mostAgain {
		return code
	}
	fmt.Printf("acceptance: running the failed tests once more: %s\n", strings.Join(again, ", "))
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

// failing returns the failed tests.
func (j *journey) failing() (names []string) {
	for name, failed := range j.failed {
		if failed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// end records the run with the exit code. It returns an error if a test started no Redis of
// the connection mode, or if the run failed and the row names no failed test.
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
		case slices.ContainsFunc(exclusions, func(x exclusion) bool { return x.test == name && x.excludes(*j.way) }):
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
		return errors.New("the run failed, but no test that started a Redis did; no row is written")
	}
	if err := row.Put(); err != nil {
		return err
	}
	if len(idle) > 0 {
		return fmt.Errorf("%s started no Redis with newRedis; add tests that cannot run in every mode to `exclusions`, with the reason",
			strings.Join(idle, ", "))
	}
	return nil
}

// settings returns the settings of a service, without paths of this run.
func (j *journey) settings() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, env := range j.env {
		return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.Contains(v, "_FILE=") })
	}
	return nil
}

// exclusion is a test that cannot run in every connection mode.
type exclusion struct {
	test, why string
	not       []string // the excluded modes; none: all
}

func (s exclusion) excludes(w way) bool { return len(s.not) == 0 || slices.Contains(s.not, w.flag) }

// The reasons that several tests have.
const (
	ownServers = "starts separate servers and causes their faults"
	ownWays    = "runs in each mode itself"
	noRedis    = "needs no Redis, or the emulated one"
)

var (
	clusters   = []string{"cluster", "cluster-tls"}
	notAlone   = append([]string{"sentinel"}, clusters...)
	notThrough = append([]string{"tls"}, notAlone...)
)

// exclusions lists the tests that cannot run in every mode, with the reasons.
var exclusions = []exclusion{
	{"TestAdoptionSurvivesHangingMaster", ownServers, nil},
	{"TestClusterDeliversOnTime", ownServers, nil},
	{"TestHangingMasterDelaysOnlyCallsForItsShards", ownServers, nil},
	{"TestFleetSurvivesFailover", ownServers, nil},
	{"TestMigrationToClusterAndBack", ownServers, nil},
	{"TestMigrationRefusesSkewedClock", ownServers, nil},
	{"TestAPIAnswersWithoutHangingNode", ownServers, nil},
	{"TestPagesAnswerWithoutHangingNode", ownServers, nil},
	{"TestHangingMasterLeavesOtherShardsOnTime", ownServers, nil},
	{"TestPausedNodeUsesNoAttempts", ownServers, nil},
	{"TestDeadMasterLeavesOtherShardsServed", ownServers, nil},
	{"TestHalfMovedSlotLeavesOtherShardsOnTime", ownServers, nil},
	{"TestNetworkPartitionUnderSentinel", ownServers, nil},
	{"TestPowerCuts", ownServers, nil},
	{"TestListInClusterGetsEachEntryOnce", ownServers, nil},
	{"TestReplayInClusterIsSentOnce", ownServers, nil},
	{"TestReshardInClusterLosesNothing", ownServers, nil},
	{"TestRestartedMasterIsUnusedDuringFailover", ownServers, nil},
	{"TestManualFailoverLeavesOldMasterUnused", ownServers, nil},
	{"TestAbortedFailoverKeepsMaster", ownServers, nil},
	{"TestStaleClusterMasterConfirmsNothing", ownServers, nil},
	{"TestPausedClusterNodeLosesNothing", ownServers, nil},
	{"TestKilledSentinelMasterLosesNothing", ownServers, nil},
	{"TestKilledClusterMasterLosesNothing", ownServers, nil},
	{"TestServerOfMatrixDeliversOnTime", "measures servers alone and as a cluster", nil},
	{"TestLevelsOfDurability", "measures levels of durability, each with separate servers", nil},
	{"TestThreeMastersShareTheWork", "measures a cluster against one Redis", nil},
	{"TestMigrationInEveryConnectionMode", ownWays, nil},
	{"TestMainPathInEveryConnectionMode", ownWays, nil},
	{"TestUnsetClockIsLogged", noRedis, nil},
	{"TestWrongConfigurationIsRefusedAtStart", noRedis, nil},
	{"TestExamples", noRedis, nil},
	{"TestExclusionsNameExistingTests", noRedis, nil},
	{"TestRedisStartFailureFailsTest", noRedis, nil},
	{"TestLogLinesThroughAPipeAreJSON", "uses a Redis that refuses connections, and one that does not exist", nil},
	{"TestPagesAnswerAmongAMillionNotices", "measures and records the time of the pages' scripts in one Redis", nil},
	{"TestFiftyDashboardsDelayNothing", "measures and records the cost of dashboards for one Redis", nil},
	{"TestSilentSubscriptionLosesNothing", "has a proxy in front of one address, which reads the traffic", notThrough},
	{"TestOldVersionWithoutFleetRunsBesideThisOne", "the old version used one shard, with the timers in its slot", clusters},
	{"TestWritesToOldShardAreDelivered", "the old version used one shard, with the timers in its slot", clusters},
	{"TestReshardUnderLoadLosesNothing", "TestReshardInClusterLosesNothing covers clusters", clusters},
}

// Each name in the table is the name of a test, is listed once, and has a reason.
func TestExclusionsNameExistingTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
	}
	if err := sound(exclusions, tests, ways()); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][]exclusion{
		{{"TestOfNothing", ownServers, nil}},
		{{"TestExamples", noRedis, nil}, {"TestExamples", noRedis, nil}},
		{{"TestExamples", "", nil}},
		{{"TestExamples", noRedis, []string{"pigeon"}}},
	} {
		if sound(wrong, tests, ways()) == nil {
			t.Errorf("no error for %v", wrong)
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
func TestRedisStartFailureFailsTest(t *testing.T) {
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

// sound returns the errors of a table.
func sound(table []exclusion, tests map[string]bool, all []way) error {
	var wrong []error
	seen := map[string]bool{}
	for _, x := range table {
		switch {
		case !tests[x.test]:
			wrong = append(wrong, fmt.Errorf("there is no test %s", x.test))
		case seen[x.test]:
			wrong = append(wrong, fmt.Errorf("%s is listed twice", x.test))
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
