//go:build fault

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/test/record"
)

// The three sides, and their addresses. The cable between the first two is pulled; the
// third keeps its cables to both, but carries nothing from one to the other.
const (
	cutOff = iota // the old master, a sentinel, an instance, a producer
	rest          // two replicas, two sentinels, an instance, a producer
	hears         // an instance and a producer
)

var sides = []string{"10.77.0.1", "10.77.0.2", "10.77.0.3"}

var sideNames = []string{"cut off", "with the new master", "that hears of both"}

// island is three machines and a switch.
type island struct {
	t      *testing.T
	at     [3]*network
	middle *network
	urls   [3]string
}

// newIsland lays the cables. Its error says why there can be none here.
func newIsland(t *testing.T, rec *receiver) (*island, error) {
	is := &island{t: t}
	var err error
	if is.middle, err = newNetwork(t); err != nil {
		return nil, err
	}
	for i := range is.at {
		if is.at[i], err = newNetwork(t); err != nil {
			return nil, err
		}
		if err := is.at[i].ip("addr add " + sides[i] + "/32 dev lo"); err != nil {
			return nil, err
		}
	}
	err = errors.Join(
		is.middle.ip("link add bridge type bridge"), is.middle.ip("link set bridge up"),
		is.at[cutOff].join("to1", is.middle, "port0"), is.at[rest].join("to0", is.middle, "port1"),
		is.at[cutOff].join("to2", is.at[hears], "to0"), is.at[rest].join("to2", is.at[hears], "to1"),
		is.middle.ip("link set port0 master bridge"), is.middle.ip("link set port1 master bridge"))
	for from := range sides {
		for to := range sides {
			if from != to {
				err = errors.Join(err, is.at[from].ip(fmt.Sprintf("route add %s/32 dev to%d src %s", sides[to], to, sides[from])))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	for i, n := range is.at {
		l, err := n.listen("127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		srv := httptest.NewUnstartedServer(rec.serve)
		_ = srv.Listener.Close()
		srv.Listener = l
		srv.Start()
		t.Cleanup(srv.Close)
		is.urls[i] = srv.URL
	}
	return is, nil
}

// cable cuts the connection between the first two sides, or restores it. Neither side gets
// an error: packets are dropped.
func (is *island) cable(whole bool) {
	is.t.Helper()
	line := "link set port0 nomaster"
	if whole {
		line = "link set port0 master bridge"
	}
	if err := is.middle.ip(line); err != nil {
		is.t.Fatal(err)
	}
}

// redis starts a server, or a sentinel, at a side, and gives a client of it.
func (is *island) redis(side, port int, args ...string) *redis.Client {
	t := is.t
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "redis.conf")
	own := []string{"port " + fmt.Sprint(port), "bind " + sides[side], "protected-mode no", "dir " + dir,
		`logfile ` + filepath.Join(dir, "log")}
	if err := os.WriteFile(conf, []byte(strings.Join(append(own, args...), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{conf}
	if strings.HasPrefix(args[0], "sentinel") {
		words = append(words, "--sentinel")
	}
	server, err := testkit.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(server, words...)
	cmd.SysProcAttr = tether()
	if err := is.at[side].start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it reports the signal
	})
	c := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("%s:%d", sides[side], port), Dialer: is.at[side].dial, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	await(t, waitTimeout, "a server that answers", func() bool { return c.Ping(t.Context()).Err() == nil })
	return c
}

// A cable is pulled under Sentinel: the old master goes on, alone with a sentinel, an
// instance and a producer, and the other side elects a new one.
func TestNetworkPartitionUnderSentinel(t *testing.T) {
	aof := []string{"appendonly yes", "appendfsync always"}
	for i, l := range []level{{"memory", nil}, {"replicas:1", nil}, {"fsync", aof}} {
		t.Run(l.durability, func(t *testing.T) { partition(t, fmt.Sprintf("7.%d", i+1), l) })
	}
}

func partition(t *testing.T, no string, lv level) {
	begun, cut := time.Now(), record.Sized(12*time.Second, 20*time.Second)
	row := record.Fault{No: no, Fault: fmt.Sprintf("network partition under Sentinel, %s", record.Short(cut)),
		Settings: lv.String() + ", 2 replicas, 3 sentinels, down-after-milliseconds 1500",
		Aim:      "an instance that can hear of the switch confirms nothing on the old master from 500 ms after it", From: begun}
	if lv.durability == "replicas:1" {
		row.Aim = "0 lost; " + row.Aim
	}
	rec := listen(t, nil)
	is, err := newIsland(t, rec)
	if err != nil {
		row.Found = "not tried: no network namespaces here: " + err.Error()
		row.Put(t)
		t.Log(row.Found)
		return
	}
	ctx := t.Context()
	config := append([]string{`save ""`, "repl-diskless-sync-delay 0", "notify-keyspace-events Ex"}, lv.config...)
	old := is.redis(cutOff, 6379, config...)
	row.Server = versionOf(t, old)
	for port := range 2 {
		r := is.redis(rest, 6379+port, append(config, "replicaof "+sides[cutOff]+" 6379")...)
		await(t, waitTimeout, "the replica in step", func() bool {
			return strings.Contains(r.Info(ctx, "replication").Val(), "master_link_status:up")
		})
	}
	var heard *redis.SentinelClient
	var addrs []string
	for i, side := range []int{cutOff, rest, rest} {
		is.redis(side, 26379+i, "sentinel monitor pay "+sides[cutOff]+" 6379 2", "sentinel down-after-milliseconds pay 1500",
			"sentinel failover-timeout pay 10000")
		addrs = append(addrs, fmt.Sprintf("%s:%d", sides[side], 26379+i))
		c := redis.NewSentinelClient(&redis.Options{Addr: addrs[i], Dialer: is.at[side].dial, DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		heard = c
	}
	await(t, waitTimeout, "sentinels that know all", func() bool {
		return len(heard.Sentinels(ctx, "pay").Val()) == 2 && len(heard.Replicas(ctx, "pay").Val()) == 2
	})
	url := "redis://" + addrs[0] + "/0?master_name=pay&addr=" + strings.Join(addrs[1:], "&addr=")
	space := keys.Space{Namespace: "notifier", Shards: 1}
	dice := rand.New(rand.NewPCG(record.Seed(t), 7))
	waits := make([]time.Duration, 1009) // so many that no period of the calls shows
	for i := range waits {
		waits[i] = 1500*time.Millisecond + time.Duration(dice.Int64N(int64(cut+3*time.Second)))
	}
	var ledgers [3]*ledger
	var all [3]*service
	for i, n := range is.at {
		s, err := exe(t, n, 8080, url, [][]string{{"NOTIFIER_REDIS_MODE=sentinel", "NOTIFIER_DURABILITY=" + lv.durability}, wide(is.urls[i])})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = s
	}
	for i, s := range all {
		await(t, waitTimeout, "its API", func() bool { return s.ended() || s.healthy() })
		s.ready()
		ledgers[i] = newLedger(s, space, string("arm"[i]), func(i int) time.Duration { return waits[i%len(waits)] })
	}
	for _, l := range ledgers {
		go l.run(record.Sized(70, 220))
	}
	time.Sleep(record.Sized(4*time.Second, 8*time.Second)) // sleep: steady work before the fault
	is.cable(false)
	pulled := time.Now()
	await(t, waitTimeout, "Sentinel's switch", func() bool { return heard.GetMasterAddrByName(ctx, "pay").Val()[0] != sides[cutOff] })
	switched := time.Now()
	time.Sleep(cut - time.Since(pulled)) // sleep: the fault lasts as long
	only := strangers(ctx, is, old, space, heard)
	is.cable(true)
	fault := window{pulled, time.Now()}
	time.Sleep(record.Sized(4*time.Second, 10*time.Second)) // sleep: steady work after it
	var entries [3][]entry
	var every []entry
	for i, l := range ledgers {
		entries[i] = l.end()
		every = append(every, entries[i]...)
	}
	all[rest].drained(every)
	r := count(every, rec, fault)
	r.log(t)
	stale, confirmed, latest := is.stale(entries, only, switched)
	lost := [3]int{}
	for i := range entries {
		lost[i] = len(missing(entries[i], rec))
	}
	ok := stale[hears] == 0 && (lv.durability != "replicas:1" || len(r.missing) == 0)
	row.Counts = r.counts()
	row.Found = record.Reached(ok,
		fmt.Sprintf("Sentinel's own switch took %s; confirmed on the old master alone more than 500 ms after it: %d by the instance that hears "+
			"of it, %d by the one cut off; "+
			"lost of the producers %s %d, %s %d, %s %d; during the cut the instance that is cut off confirmed %d calls",
			record.Short(switched.Sub(pulled)), stale[hears], stale[cutOff],
			sideNames[0], lost[0], sideNames[1], lost[1], sideNames[2], lost[2], confirmed))
	row.Put(t)
	if lv.durability == "replicas:1" && len(r.missing) > 0 {
		t.Errorf("%d were lost, as %s", len(r.missing), r.missing[0])
	}
	// Aimed at are 500 ms; who never hears of the switch goes on for as long as the cut.
	if latest > 5*time.Second {
		t.Errorf("an instance that hears of both sides confirmed on the old master %s after the switch", latest)
	}
}

// strangers are the notices that the old master has and the new one has not.
func strangers(ctx context.Context, is *island, old *redis.Client, space keys.Space, heard *redis.SentinelClient) map[string]bool {
	is.t.Helper()
	records := space.Records(keys.Partition{Prefix: "app1:pay"})
	addr := heard.GetMasterAddrByName(ctx, "pay").Val()
	c := redis.NewClient(&redis.Options{Addr: strings.Join(addr, ":"), Dialer: is.at[rest].dial, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	theirs, err := old.HKeys(ctx, records).Result()
	ours, err2 := c.HKeys(ctx, records).Result()
	if err = errors.Join(err, err2); err != nil && !errors.Is(err, io.EOF) {
		is.t.Fatal(err)
	}
	only := map[string]bool{}
	for _, k := range theirs {
		only[k] = true
	}
	for _, k := range ours {
		delete(only, k)
	}
	return only
}

// stale counts, by side, calls that only the old master has confirmed, half a second after
// the switch or later. confirmed counts all such calls of the side that is cut off. latest is
// the time from the switch to the last such answer on the side that reaches both masters.
func (is *island) stale(entries [3][]entry, only map[string]bool, switched time.Time) (stale [3]int, confirmed int, latest time.Duration) {
	for side, es := range entries {
		for _, e := range es {
			if e.status != 201 || !only[e.key] {
				continue
			}
			if side == cutOff {
				confirmed++
			}
			after := e.at.Add(e.took).Sub(switched)
			if after > switchAim {
				stale[side]++
			}
			if side == hears {
				latest = max(latest, after)
			}
		}
	}
	return stale, confirmed, latest
}
