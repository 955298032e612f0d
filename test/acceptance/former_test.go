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

// former is an instance of a version before instances knew of each other, as far as
// others can see of it: it claims what is due and settles, by that version's own
// scripts, gives no sign of life, and no id begins its tokens.
//
// The scripts are kept as they were, in testdata/former, and a test speaks them. To
// build that version from the repository's history would show more of it, but not on
// a machine that has no history, as of a shallow clone or an archive, or that cannot
// fetch the modules it was built with; and what instances of two versions share is
// what lies in Redis. What is not shown is what that version made of the records that
// this one writes.
type former struct {
	t             *testing.T
	db            *database
	url           string
	lease         time.Duration
	claim, settle string
	tokens        int
	delivered     atomic.Int64
}

var (
	formerSpace = keys.Space{Namespace: "notifier", Shards: 1}
	formerPart  = keys.Partition{Prefix: formerPrefix}
)

func newFormer(t *testing.T, db *database, url string, lease time.Duration) *former {
	t.Helper()
	f := &former{t: t, db: db, url: url, lease: lease}
	for name, src := range map[string]*string{"claim": &f.claim, "settle": &f.settle} {
		raw, err := os.ReadFile(filepath.Join("testdata", "former", name+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		*src = string(raw)
	}
	return f
}

// formerClaim is what it has won.
type formerClaim struct{ key, token, before, now, record string }

// claims claims up to n notices that are due, as that version did without events.
func (f *former) claims(ctx context.Context, n int) []formerClaim {
	f.t.Helper()
	f.tokens++
	token := "host-7f3a-" + strconv.Itoa(f.tokens)
	v, err := f.db.Client().Eval(ctx, f.claim, []string{formerSpace.Shadow(formerPart), formerSpace.Records(formerPart)},
		formerSpace.ClaimPrefix(0), token, f.lease.Milliseconds(), 4<<20, 0, "o", n).Slice()
	if err != nil {
		f.t.Errorf("the former's claim: %v", err)
		return nil
	}
	var won []formerClaim
	for i := 2; i+2 < len(v); i += 3 {
		answer, ok := v[i+1].(string)
		if !ok {
			continue // another's, or not due
		}
		scores := strings.Fields(answer)
		key, _ := v[i].(string)
		record, _ := v[i+2].(string)
		won = append(won, formerClaim{key, token, scores[0], scores[2], record})
	}
	return won
}

// deliver calls the receiver, as far as that looks at calls.
func (f *former) deliver(ctx context.Context, c formerClaim) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader("{}"))
	due, err2 := strconv.ParseFloat(c.before, 64)
	if err = errors.Join(err, err2); err != nil {
		f.t.Errorf("the former's call: %v", err)
		return
	}
	req.Header.Set("Notifier-Key", c.key)
	req.Header.Set("Notifier-Attempt", "1")
	req.Header.Set("Notifier-Due", time.UnixMilli(int64(due)).UTC().Format(time.RFC3339Nano))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Errorf("the former's call: %v", err)
		return
	}
	_ = res.Body.Close()
	f.delivered.Add(1)
}

// ends settles a notice as delivered, and reports whether that was still its to say.
func (f *former) ends(ctx context.Context, c formerClaim) bool {
	f.t.Helper()
	at := time.Now().UnixMilli()
	record := fmt.Sprintf(`%s,"n":1,"attempts":[{"n":1,"at":%d,"ms":1,"status":200}]}`, strings.TrimSuffix(c.record, "}"), at)
	v, err := f.db.Client().Eval(ctx, f.settle,
		[]string{formerSpace.Shadow(formerPart), formerSpace.Records(formerPart), formerSpace.Dead(formerPart), formerSpace.Settled(formerPart)},
		formerSpace.ClaimPrefix(0), formerSpace.Wake(), "0 "+formerPrefix, "1", "1", 1, c.key,
		c.token, "d", fmt.Sprintf("%s %s %d 0 2", c.now, c.before, at), record).Slice()
	if err != nil || len(v) != 2 {
		f.t.Errorf("the former's settle: %v, %v", v, err)
		return false
	}
	return v[1] == int64(0)
}

// otherVersion builds the service as another version of itself would call itself.
func otherVersion(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notifier")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version="+version, "-o", path,
		"notifier/cmd/notifier").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v\n%s", err, out)
	}
	return path
}

// A version is rolled out: beside an instance from before there was a fleet live two
// that know each other, of two versions. What is delivered, is delivered once by one of
// them. What the former has in hand when it dies waits for its lease, as it always
// did, and its late settle is refused. The two are told apart; of the former nobody
// knows, so nobody waits for it and nobody counts it out.
func TestAVersionBeforeTheFleetBesideThisOne(t *testing.T) {
	const n, rate, timeout = 2000, 200, 5 * time.Second
	lease := timeout + 5*time.Second
	rec := listen(t, nil)
	db := newRedis(t)
	env := route("pay", formerPrefix, rec.url, "TIMEOUT="+timeout.String(), "CONCURRENCY=64", "HOST_CONCURRENCY=64")
	a := launch(t, db.URL(), env, []string{"NOTIFIER_INSTANCE=this"})
	of := otherVersion(t, "0.0.1-former")
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
	if len(versions) != 2 || versions["other"] != "0.0.1-former" || versions["this"] == versions["other"] {
		t.Errorf("the versions are %v", versions)
	}

	f := newFormer(t, db, rec.url, lease)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var held []formerClaim
	var died time.Time
	working.Go(func() {
		for ctx.Err() == nil {
			won := f.claims(t.Context(), 8)
			if len(won) > 0 && f.delivered.Load() >= 20 {
				held, died = won, time.Now() // with these in hand
				return
			}
			for _, c := range won {
				f.deliver(t.Context(), c)
				if !f.ends(t.Context(), c) {
					t.Errorf("%s was taken from the former", c.key)
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
	t.Logf("%d of %d were delivered by the former, which died with %d in hand; the others' lateness %s", by, n, len(held),
		rec.lateness("app1"))
	if len(held) == 0 || by == n-len(held) {
		t.Fatal("the former did not work beside the others")
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
			t.Errorf("the former's late settle of %s counted", c.key)
		}
		got, err := b.api.Get(t.Context(), c.key)
		if err != nil || got.State != "delivered" || len(got.Attempts) != 2 || got.Attempts[0].Reason != "interrupted" {
			t.Errorf("%s: %v, %s", c.key, err, got.JSON)
		}
	}
	rec.once(n)
	raw, err := exec.CommandContext(t.Context(), binary, "instances", "--api", a.url).CombinedOutput()
	if err != nil || bytes.Count(raw, []byte("living")) != 2 || !bytes.Contains(raw, []byte("0.0.1-former")) {
		t.Errorf("notifier instances: %v\n%s", err, raw)
	}
	for _, s := range []*service{a, b} {
		if gone := s.metric("notifier_instances_gone_total"); gone != 0 {
			t.Errorf("%v instances were counted out", gone)
		}
	}
}
