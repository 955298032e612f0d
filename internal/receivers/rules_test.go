package receivers

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// ruledRoute is a route with one host, whose answers 401 and 404 pause it.
func ruledRoute() *route.Route {
	target, _ := route.ParseTarget("https://down.example/x")
	return &route.Route{Name: "r", Prefix: "app1", Target: target, OnStatus: route.OnStatus{401: route.ActionPause, 404: route.ActionPause,
		422: route.ActionDead}}
}

func TestRulePausesAfterThreeAnswersInARow(t *testing.T) {
	r := ruledRoute()
	for name, c := range map[string]struct {
		answers string // the notice and the digit of its answer: 1 = 401, 4 = 404, 0 = none, 2 = 200, 5 = 500, 6 = 422
		pauses  bool
	}{
		"three":                           {"a1b1c1", true},
		"of several statuses":             {"a1b4c1", true},
		"two":                             {"a1b1", false},
		"one notice three times":          {"a1a1a1", false},
		"a notice again":                  {"a1b1a1c1", true},
		"a success between":               {"a1b1x2c1d1", false},
		"another failure between":         {"a1b1x5c1d1", false},
		"a rule that does not pause":      {"a1b1x6c1d1", false},
		"no answer between":               {"a1b1x0c1", true},
		"three after another answer":      {"a1x5b1c1d1", true},
		"the row begins anew after three": {"a1b1c1d1e1", true},
	} {
		u := NewRules(RulesOptions{Holds: NewHolds(nil)})
		status := map[byte]int{'0': 0, '1': 401, '2': 200, '4': 404, '5': 500, '6': 422}
		for i := 0; i < len(c.answers); i += 2 {
			n := &notice.Notice{Key: "app1:a:b:" + c.answers[i:i+1]}
			u.Answered(r, n, "down.example:443", Attempt{At: time.Now(), Status: status[c.answers[i+1]]})
		}
		if _, due := u.due[Receiver{Prefix: "app1", Host: "down.example:443"}]; due != c.pauses || len(u.due) > 1 {
			t.Errorf("%s: due %v, want %t", name, u.due, c.pauses)
		}
	}
}

func TestOwnerOfANoticeIsTheNarrowestClient(t *testing.T) {
	h := NewHolds(nil)
	h.Owners = []Owner{{"all", ""}, {"app", "app1"}, {"same", "app1"}, {"shop", "app1:shop"}, {"other", "app2:x:y"}}
	for key, want := range map[string][3]string{
		"app1:shop:a:1":  {"app1:shop", "shop", "app1"},
		"app1:other:a:1": {"app1", "app", "app1"},
		"app1:shop:b:1":  {"app1:shop:b", "shop", "app1:shop:b"}, // the route is narrower
		"app3:a:b:1":     {"app3", "all", "app3"},
	} {
		x, client := h.Ruled(&route.Route{Prefix: want[2]}, &notice.Notice{Key: key}, "a.example:443")
		if x.Prefix != want[0] || client != want[1] {
			t.Errorf("%s: %+v for %s, want %v", key, x, client, want)
		}
	}
	h.Owners = nil
	x, client := h.Ruled(&route.Route{Prefix: "app1"}, &notice.Notice{Key: "app1:a:b:1"}, "a.example:443")
	if x.Prefix != "app1" || client != "" {
		t.Errorf("without clients: %+v for %q", x, client)
	}
}

// A receiver with host and audience has its own entry, which reads back as it was written.
func TestEntryOfHostAndAudience(t *testing.T) {
	r := Receiver{Prefix: "app1:a", Host: "shop.example:443", Audience: "m17"}
	v := value{Rule: "ON_STATUS 401", Since: 1_800_000_000_000}
	p, _ := readEntry(r.String(), `{"at":1`+v.text())
	if p == nil || p.Receiver != r || p.Rule != v.Rule || p.Since.UnixMilli() != v.Since || p.value() != v {
		t.Errorf("%+v", p)
	}
	table := newHoldTable(1, map[string]string{r.String(): `{"at":1}`})
	for audience, held := range map[string]bool{"m17": true, "m18": false, "": false} {
		if got := table.Held("app1:a:b:1", r.Host, audience, time.Now()) != nil; got != held {
			t.Errorf("audience %q: held %t", audience, got)
		}
	}
	if got, _ := readEntry("both/shop.example/m17", "{}"); got != nil {
		t.Errorf("%+v", got)
	}
}

// Only the attempt of the probe passes a pause by rule. The notice's next attempt is held, and so is the probe of a receiver that
// a client has paused as well.
func TestPauseLetsOnlyItsProbePass(t *testing.T) {
	h, r, now := NewHolds(nil), ruledRoute(), time.Now()
	entries := map[string]string{"host/down.example:443/app1": `{"at":1,"rule":"ON_STATUS 401","since":1,"probe":"app1:a:b:1","made":7,
		"attempt":2,"probed":2}`}
	held := func(key string, made int) bool {
		_, _, ok := h.Held(r, &notice.Notice{Key: key, Made: 7, AttemptsMade: made}, now)
		return ok
	}
	h.table.Store(newHoldTable(1, entries))
	if held("app1:a:b:1", 1) || !held("app1:a:b:1", 2) || !held("app1:a:b:1", 0) || !held("app1:a:b:2", 1) {
		t.Error("the wrong attempts are held")
	}
	if _, _, ok := h.Held(r, &notice.Notice{Key: "app1:a:b:1", Made: 8, AttemptsMade: 1}, now); !ok {
		t.Error("a later notice with the key of the probe passes")
	}
	if _, _, ok := h.Held(r, &notice.Notice{Key: "app1:a:b:1", Made: 7, AttemptsMade: 1, Locked: 1}, now); !ok {
		t.Error("the probe passes again after its receiver has deferred it")
	}
	u := NewRules(RulesOptions{Holds: h})
	for _, c := range []struct {
		key, host string
		made      notice.Made
		attempt   int
	}{{"app1:a:b:1", "down.example:443", 7, 3}, {"app1:a:b:2", "down.example:443", 7, 2}, {"app1:a:b:1", "down.example:443", 8, 2},
		{"app1:a:b:1", "new.example:443", 7, 2}} {
		if u.Delivered(r, &notice.Notice{Key: c.key, Made: c.made}, c.host, c.attempt); len(u.due) > 0 {
			t.Errorf("%v resumes", c)
		}
	}
	if u.Delivered(r, &notice.Notice{Key: "app1:a:b:1", Made: 7}, "down.example:443", 2); len(u.due) != 1 {
		t.Error("the probe does not resume")
	}

	entries["host/down.example/"] = `{"at":1}`
	if h.table.Store(newHoldTable(2, entries)); !held("app1:a:b:1", 1) {
		t.Error("the probe passes the pause of a client")
	}
}
