package ui_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/html"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/ui"
)

// hold lists a notice as held by a pause.
func (s *site) hold(pause, key string) {
	s.t.Helper()
	space := s.engine.Store().Space()
	at := keys.Partition{Prefix: s.table.Match(key).Prefix, Shard: space.Shard(key)}
	err := s.engine.Store().Wire().Redis.ZAdd(s.t.Context(), space.Held(at), redis.Z{Member: pause + " " + key}).Err()
	if err != nil {
		s.t.Fatal(err)
	}
}

// forms returns the hidden and preset fields of the forms with an action.
func (a answer) forms(action string) (list []map[string]string) {
	a.each(func(n *html.Node) {
		if n.Data != "form" || attr(n, "action") != action {
			return
		}
		fields := map[string]string{}
		for d := range n.Descendants() {
			if d.Type == html.ElementNode && (d.Data == "input" || d.Data == "select") {
				fields[attr(d, "name")] = attr(d, "value")
			}
		}
		list = append(list, fields)
	})
	return list
}

// press sends a form of a page as a browser does, and returns the next page.
func (s *site) press(a answer, action string, fields ...string) answer {
	s.t.Helper()
	forms := a.forms(action)
	if len(forms) == 0 {
		s.t.Fatalf("the page has no form %s: %s", action, textOf(a.tree))
	}
	var all []string
	for name, value := range forms[0] {
		all = append(all, name, value)
	}
	to := s.post(action, append(all, fields...)...).is(303).Header.Get("Location")
	return s.get(to).is(200)
}

// A receiver without health is paused, limited and resumed from the list, and each change is in the audit.
func TestReceiverWithoutHealthIsPausedAndResumed(t *testing.T) {
	s := newSite(t)
	page := s.get("/ui/receivers").is(200)
	page = s.press(page, "/ui/receivers/pause", "host", "Next.Example.", "until", "+2h", "over", "10m")
	page.says("The receiver is paused.", "Paused and limited receivers", "next.example all paused until", "in 1h59m 0 – –")
	s.hold("host/next.example/", "app1:orders:paid:1")
	s.hold("host/next.example/", "app1:fixed:paid:2")
	page = s.press(page, "/ui/receivers/pause", "audience", "m17", "prefix", "app1:orders")
	page.says("audience m17 app1:orders paused", "next.example all paused until", " 2 –")

	page = s.press(page, "/ui/receivers/limit", "rate", "300/m", "concurrency", "2") // the form of the first row
	page.says("The limits of the receiver are set.", "next.example all paused", "limited", "2 5/s 2")
	var offered []string
	for _, f := range page.forms("/ui/receivers/resume") {
		offered = append(offered, f["host"]+f["audience"]+" "+f["prefix"])
	}
	if got := strings.Join(offered, ", "); got != "m17 app1:orders, next.example " {
		t.Errorf("the page resumes %q", got)
	}
	page = s.press(page, "/ui/receivers/resume").saysNot("audience <code>m17")
	page = s.press(page, "/ui/receivers/resume", "over", "1h")
	page.says("The receiver is resumed.", "next.example all limited – 5/s 2")
	s.post("/ui/receivers/resume", "host", "next.example").is(303)
	page = s.press(page, "/ui/receivers/limit", "rate", "", "concurrency", "0")
	page.says("The receiver has the limits of its routes.").saysNot("<code>next.example")

	list, err := s.engine.Audited(t.Context(), audit.Range{}, 20)
	if err != nil {
		t.Fatal(err)
	}
	var noted []string
	for i := len(list) - 1; i >= 0; i-- {
		if e := list[i]; e.Via == audit.Pages && e.Client == "me" && e.Result == audit.Done {
			detail, _, _ := strings.Cut(e.Detail, " until ")
			noted = append(noted, string(e.Action)+" "+e.Prefix+" "+detail)
		}
	}
	if got, want := strings.Join(noted, "\n"), strings.Join([]string{"pause-receiver  host/next.example/",
		"pause-receiver app1:orders audience/m17/app1:orders", "limit-receiver  host/next.example/: rate 5/s, concurrency 2",
		"resume-receiver app1:orders audience/m17/app1:orders", "resume-receiver  host/next.example/ over 1h",
		"limit-receiver  host/next.example/: rate 0, concurrency 0"}, "\n"); got != want {
		t.Errorf("the audit has\n%s\nwant\n%s", got, want)
	}
}

// The first page names paused receivers, which someone may have forgotten, and does not claim that there are none.
func TestFirstPageNamesPausedReceivers(t *testing.T) {
	s := newSite(t)
	s.health = &physician{}
	s = s.as(ui.Visitor{})
	s.get("/ui/").says("no route or receiver is paused").saysNot("receiver paused")

	page := s.get("/ui/receivers")
	page = s.press(page, "/ui/receivers/pause", "host", "next.example", "until", "+2h")
	s.hold("host/next.example/", "app1:orders:paid:1")
	page = s.press(page, "/ui/receivers/pause", "audience", "m17", "prefix", "app1:orders")
	s.get("/ui/").says("2 receivers paused", "No attempt is made until the pause ends. 1 due notice held.", "audience m17 under app1:orders",
		"next.example until ")
	s.as(ui.Visitor{Prefix: "app1", Role: auth.Read}).get("/ui/").says("1 receiver paused", "audience m17 under app1:orders").
		saysNot("next.example", "no route or receiver is paused")
	s.as(ui.Visitor{Prefix: "app2", Role: auth.Read}).get("/ui/").says("and no route is paused").saysNot("next.example", "m17")
	for i := range 5 {
		page = s.press(page, "/ui/receivers/pause", "host", fmt.Sprintf("a%d.example", i))
	}
	s.get("/ui/").says("7 receivers paused", "a3.example", "2 more").saysNot("next.example")
}

// A client with a prefix pauses its own notices only, and sees what holds them.
func TestReceiversOfClientWithPrefix(t *testing.T) {
	s := newSite(t)
	s.engine.Tell(fleet.Figures{Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "shop.example:443", Calls: 3}}})
	me := s.as(ui.Visitor{Prefix: "app1", Role: auth.Operate})
	me.get("/ui/receivers").says("shop.example:443 orders answers")
	page := me.get("/ui/receivers/shop.example:443")
	page = me.press(page, "/ui/receivers/pause", "host", "shop.example")
	page.says("The receiver is paused.", "Pauses and limits", "shop.example app1 paused", "answers paused")
	table, err := s.engine.Holds(t.Context())
	if err != nil || len(table.Pauses()) != 1 || table.Pauses()[0].String() != "host/shop.example/app1" {
		t.Errorf("%v %v", table.Pauses(), err)
	}
	for _, action := range []string{"pause", "resume", "limit"} {
		for _, prefix := range []string{"app2", "app"} {
			me.post("/ui/receivers/"+action, "host", "shop.example", "prefix", prefix).is(403).says("under app1")
		}
	}

	all := s.as(ui.Visitor{})
	all.get("/ui/receivers").says("shop.example app1 paused")
	all.post("/ui/receivers/pause", "host", "shop.example:443", "until", "+1h").is(303)
	all.post("/ui/receivers/limit", "host", "shop.example", "rate", "7/s").is(303)
	me.post("/ui/receivers/resume", "host", "shop.example", "from", "shop.example:443").is(303)
	page = me.get("/ui/receivers/shop.example:443").is(200)
	page.says("answers paused until", "limited to 7/s").saysNot("Pauses and limits") // which are the operator's
	if forms := page.forms("/ui/receivers/resume"); len(forms) != 0 {
		t.Errorf("a client resumes the pause of another: %v", forms)
	}
	me.get("/ui/receivers").says("answers paused until").saysNot("Paused and limited receivers")
}

func TestPagesRefuseWrongPauses(t *testing.T) {
	s := newSite(t)
	before := s.engine.Changes()
	for _, c := range []struct{ action, fields, says string }{
		{"pause", "", "Set a host, an audience, or both"}, {"resume", "host=a.example&audience=a b", "Not an audience"},
		{"pause", "host=https://a.example/x", "Not a host"}, {"pause", "host=a.example:0", "Not a host"},
		{"pause", "audience=a b", "Not an audience"},
		{"pause", "host=a.example&prefix=a:b:c:d", "Not a prefix"}, {"pause", "host=a.example&until=-1h", "not in the future"},
		{"pause", "host=a.example&until=2199-01-01", "too far"}, {"pause", "host=a.example&until=soon", "is not a time"},
		{"pause", "host=a.example&over=1h", "Only a pause with an end"}, {"pause", "host=a.example&over=2h", "spread over"},
		{"resume", "host=a.example&over=x", "spread over"}, {"limit", "host=a.example&rate=fast", "Not a rate"},
		{"limit", "host=a.example&concurrency=-1", "concurrent calls"}, {"limit", "audience=m17&rate=5/s", "Only hosts"},
	} {
		var fields []string
		for pair := range strings.SplitSeq(c.fields, "&") {
			name, value, _ := strings.Cut(pair, "=")
			fields = append(fields, name, value)
		}
		s.post("/ui/receivers/"+c.action, fields...).is(422).says(c.says, "Nothing was changed.")
	}
	if n := s.engine.Changes() - before; n != 0 {
		t.Errorf("%d changes by refused forms", n)
	}
}

// The page lists ten paused and limited receivers of the maximum, above which a change is refused.
func TestReceiversPageWithMostHolds(t *testing.T) {
	s := newSite(t)
	values := map[string]string{}
	for i := range store.MaxReceivers - 1 {
		values[fmt.Sprintf("limit/shop%d.example/", i)] = `{"rate":1}`
	}
	store := s.engine.Store()
	if err := store.Wire().Redis.HSet(t.Context(), store.Space().Receivers(), values).Err(); err != nil {
		t.Fatal(err)
	}
	s.post("/ui/receivers/limit", "host", "a.example", "rate", "1/s").is(303)
	s.get("/ui/receivers").says("a.example all limited", "9,990 more: notifier receivers .")
	s.post("/ui/receivers/pause", "host", "last.example").is(409).says("There are 10,000 paused receivers and limits", "Nothing was changed.")
}
