//go:build fault

package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/keys"
)

// oldVersion simulates an instance of a version without a fleet. It claims and settles due
// notices with that version's scripts, publishes no heartbeat, and its claim tokens do not
// begin with an instance's id.
//
// The scripts are copies in testdata/oldversion. A build of the old version would need the
// repository's history and old modules, which a shallow clone or an archive lacks. The
// copies suffice because instances of two versions share nothing but Redis. The test does
// not show how the old version parses records of this version.
type oldVersion struct {
	t             *testing.T
	db            *database
	url           string
	lease         time.Duration
	claim, settle string
	tokens        int
	delivered     atomic.Int64
}

var (
	oldSpace = keys.Space{Namespace: "notifier", Shards: 1}
	oldPart  = keys.Partition{Prefix: oldPrefix}
)

func newOldVersion(t *testing.T, db *database, url string, lease time.Duration) *oldVersion {
	t.Helper()
	f := &oldVersion{t: t, db: db, url: url, lease: lease}
	for name, src := range map[string]*string{"claim": &f.claim, "settle": &f.settle} {
		raw, err := os.ReadFile(filepath.Join("testdata", "oldversion", name+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		*src = string(raw)
	}
	return f
}

// oldClaim is a claim of the old version.
type oldClaim struct{ key, token, before, now, record string }

// claims claims up to n due notices, as the sweep of that version did.
func (f *oldVersion) claims(ctx context.Context, n int) []oldClaim {
	f.t.Helper()
	f.tokens++
	token := "host-7f3a-" + strconv.Itoa(f.tokens)
	v, err := f.db.Client().Eval(ctx, f.claim, []string{oldSpace.Shadow(oldPart), oldSpace.Records(oldPart)},
		oldSpace.ClaimPrefix(0), token, f.lease.Milliseconds(), 4<<20, 0, "o", n).Slice()
	if err != nil {
		f.t.Errorf("claim by the old version: %v", err)
		return nil
	}
	var won []oldClaim
	for i := 2; i+2 < len(v); i += 3 {
		answer, ok := v[i+1].(string)
		if !ok {
			continue // claimed by another instance, or not due
		}
		scores := strings.Fields(answer)
		key, _ := v[i].(string)
		record, _ := v[i+2].(string)
		won = append(won, oldClaim{key, token, scores[0], scores[2], record})
	}
	return won
}

// deliver calls the receiver with the headers that the receiver checks.
func (f *oldVersion) deliver(ctx context.Context, c oldClaim) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader("{}"))
	due, err2 := strconv.ParseFloat(c.before, 64)
	if err = errors.Join(err, err2); err != nil {
		f.t.Errorf("callback by the old version: %v", err)
		return
	}
	req.Header.Set("Notifier-Key", c.key)
	req.Header.Set("Notifier-Attempt", "1")
	req.Header.Set("Notifier-Due", time.UnixMilli(int64(due)).UTC().Format(time.RFC3339Nano))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Errorf("callback by the old version: %v", err)
		return
	}
	_ = res.Body.Close()
	f.delivered.Add(1)
}

// ends settles a notice as delivered, and reports whether the settle was accepted.
func (f *oldVersion) ends(ctx context.Context, c oldClaim) bool {
	f.t.Helper()
	at := time.Now().UnixMilli()
	record := fmt.Sprintf(`%s,"n":1,"attempts":[{"n":1,"at":%d,"ms":1,"status":200}]}`, strings.TrimSuffix(c.record, "}"), at)
	v, err := f.db.Client().Eval(ctx, f.settle,
		[]string{oldSpace.Shadow(oldPart), oldSpace.Records(oldPart), oldSpace.Dead(oldPart), oldSpace.Settled(oldPart)},
		oldSpace.ClaimPrefix(0), oldSpace.Wake(), "0 "+oldPrefix, "1", "1", 1, c.key,
		c.token, "d", fmt.Sprintf("%s %s %d 0 2", c.now, c.before, at), record).Slice()
	if err != nil || len(v) != 2 {
		f.t.Errorf("settle by the old version: %v, %v", v, err)
		return false
	}
	return v[1] == int64(0)
}

// otherVersion builds the service with another version number.
func otherVersion(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notifier")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version="+version, "-o", path,
		"notifier/cmd/notifier").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v\n%s", err, out)
	}
	return path
}

// An instance of a version without a fleet runs next to two instances of newer versions,
// as in a rollout. Each notice is delivered once, by one of the three. Claims that the old
// instance holds when it dies wait for their lease, and its late settles are refused. The
// fleet lists the two newer instances with their versions. It does not know the old one, so
// it never declares that one dead.
func TestOldVersionWithoutFleetRunsBesideThisOne(t *testing.T) {
	const n, rate, timeout = 2000, 200, 5 * time.Second
	lease := timeout + 5*time.Second
	rec := listen(t, nil)
	db := newRedis(t)
	env := route("pay", oldPrefix, rec.url, "TIMEOUT="+timeout.String(), "CONCURRENCY=64", "HOST_CONCURRENCY=64")
	a := launch(t, db.URL(), env, []string{"NOTIFIER_INSTANCE=this"})
	of := otherVersion(t, "0.0.1-old")
	this := binary
	binary = of
	b := launch(t, db.URL(), env, []string{"NOTIFIER_INSTANCE=other"})
	binary = this
	versions := map[string]string{}
	await(t, waitTimeout, "two instances listed", func() bool {
		l, err := a.api.Instances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range l.Items {
			if versions[i.Label] = i.Version; i.State != "living" {
				t.Errorf("%s is %s", i.Label, i.State)
			}
		}
		return versions["this"] != "" && versions["other"] != ""
	})
	if len(versions) != 2 || versions["other"] != "0.0.1-old" || versions["this"] == versions["other"] {
		t.Errorf("the versions are %v", versions)
	}

	f := newOldVersion(t, db, rec.url, lease)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var held []oldClaim
	var died time.Time
	working.Go(func() {
		for ctx.Err() == nil {
			won := f.claims(t.Context(), 8)
			if len(won) > 0 && f.delivered.Load() >= 20 {
				held, died = won, time.Now() // it dies with these in flight
				return
			}
			for _, c := range won {
				f.deliver(t.Context(), c)
				if !f.ends(t.Context(), c) {
					t.Errorf("the old version's settle of %s was refused", c.key)
				}
			}
		}
	})
	a.stream(n, n/rate*time.Second)
	rec.wait(waitTimeout, n)
	await(t, waitTimeout, "all settled", func() bool { return a.settled("pay") == n })
	stop()
	working.Wait()
	by := int(f.delivered.Load())
	t.Logf("the old version delivered %d of %d and died with %d in flight; the others' lateness %s", by, n, len(held),
		rec.lateness("app1"))
	if len(held) == 0 || by == n-len(held) {
		t.Fatal("the old version delivered nothing next to the others")
	}
	for _, c := range held {
		hits := rec.of(c.key)
		if len(hits) != 1 || hits[0].attempt != 2 {
			t.Errorf("%s came as %+v, want once, as the second attempt", c.key, hits)
			continue
		}
		if wait := hits[0].at.Sub(died); wait < lease-4*time.Second {
			t.Errorf("%s came %s after its holder died, whose lease was %s", c.key, wait, lease)
		}
		if f.ends(t.Context(), c) {
			t.Errorf("the old version's late settle of %s was accepted", c.key)
		}
		got, err := b.api.Get(t.Context(), c.key)
		if err != nil || got.State != "delivered" || len(got.Attempts) != 2 || got.Attempts[0].Reason != "interrupted" {
			t.Errorf("%s: %v, %s", c.key, err, got.JSON)
		}
	}
	rec.once(n)
	raw, err := exec.CommandContext(t.Context(), binary, "instances", "--api", a.url).CombinedOutput()
	if err != nil || bytes.Count(raw, []byte("living")) != 2 || !bytes.Contains(raw, []byte("0.0.1-old")) {
		t.Errorf("notifier instances: %v\n%s", err, raw)
	}
	for _, s := range []*service{a, b} {
		if gone := s.metric("notifier_instances_gone_total"); gone != 0 {
			t.Errorf("%v instances were declared dead", gone)
		}
	}
}
