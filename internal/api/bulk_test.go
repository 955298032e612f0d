package api_test

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// deadAt makes dead letters of three hosts, and returns their keys.
func (b *bench) deadAt(hosts ...string) (ks []string) {
	b.t.Helper()
	for i, host := range hosts {
		key := fmt.Sprintf("app1:orders:t:%d", i)
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,"url":"https://%s/x"}`, key, host)).is(201)
		b.engine.Move(key, notice.Dead, notice.ReasonGone)
		ks = append(ks, key)
	}
	return ks
}

func TestBulkCallsChooseAHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ks := b.deadAt("a.example", "B.example:8443", "a.example", "c.example")
	b.do("GET", "/v1/notices?state=dead&host=b.example", "").is(200).says(ks[1])
	b.do("POST", "/v1/routes/orders/redrive?host=b.example&dry_run=true", "").is(200).says(`"matched":1`, `"redriven":0`)
	b.do("POST", "/v1/routes/orders/redrive?host=b.example", "").is(200).says(`"matched":1`, `"redriven":1`)
	b.do("POST", "/v1/routes/orders/purge?host=a.example", "").is(200).says(`"matched":2`, `"purged":2`)
	for i, want := range []notice.State{notice.Cancelled, notice.Scheduled, notice.Cancelled, notice.Dead} {
		if f, err := b.engine.Find(t.Context(), ks[i]); err != nil || f.State != want {
			t.Errorf("%s is %s, %v, want %s", ks[i], f.State, err, want)
		}
	}
	b.do("POST", "/v1/routes/orders/redrive?host=/", "").is(422).says("query.host")
}

func TestRedriveSpreadsByRate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ks := b.deadAt("a.example", "a.example", "a.example")
	b.do("POST", "/v1/routes/orders/redrive?rate=x", "").is(422).says("query.rate")
	b.do("POST", "/v1/routes/orders/redrive?rate=1/m", "").is(200).says(`"redriven":3`)

	var first time.Time
	for i, key := range ks {
		f, err := b.engine.Find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = f.Due
		}
		if after, want := f.Due.Sub(first), time.Duration(i)*time.Minute; after < want-time.Second || after > want+time.Second {
			t.Errorf("%s is due %s after the first, want %s", key, after, want)
		}
	}
	if p, err := b.engine.List(t.Context(), store.Query{Routes: []string{"app1:orders"}, State: notice.Dead, Limit: 10}); err != nil ||
		len(p.Items) != 0 {
		t.Errorf("%d dead letters are left, %v", len(p.Items), err)
	}
}
