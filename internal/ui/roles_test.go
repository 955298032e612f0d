package ui_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/ui"
)

// requiredRoles are the lowest roles that may open each page and press each button.
var requiredRoles = map[auth.Role][]string{
	auth.Public: {"GET /ui/assets/{name}", "GET /ui/sign-in", "POST /ui/sign-in", "POST /ui/sign-out", "GET /ui/portal/{token}",
		"GET /ui/opened", "POST /ui/opened", "GET /ui/language"},
	auth.Read: {"GET /ui/{$}", "GET /ui/", "GET /ui/live/{page}", "GET /ui/live/notices/{key}", "GET /ui/receivers",
		"GET /ui/receivers/{receiver}", "GET /ui/destinations", "GET /ui/notices", "GET /ui/notices.csv", "GET /ui/notices/{key}", "GET /ui/dead",
		"GET /ui/dead/group", "GET /ui/dead/redriven", "GET /ui/routes", "GET /ui/doctor", "GET /ui/audit", "GET /ui/history", "GET /ui/report",
		"GET /ui/report.csv", "GET /ui/replays",
		"GET /ui/replays/{replay}", "GET /ui/live/replays/{replay}",
		"GET /ui/recurrences"},
	auth.Produce: {"POST /ui/notices/{key}/cancel", "POST /ui/notices/{key}/fire", "POST /ui/notices/{key}/reschedule",
		"POST /ui/recurrences/{key}/pause", "POST /ui/recurrences/{key}/resume", "POST /ui/recurrences/{key}/run",
		"POST /ui/recurrences/{key}/delete", "GET /ui/recurrences/new", "POST /ui/recurrences/new", "POST /ui/recurrences"},
	auth.Operate: {"POST /ui/notices/{key}/redrive", "POST /ui/notices/{key}/resend", "POST /ui/notices/{key}/test",
		"GET /ui/dead/download", "POST /ui/dead/redrive", "POST /ui/dead/purge", "POST /ui/routes/{name}/pause",
		"POST /ui/routes/{name}/resume", "GET /ui/receivers/{receiver}/redeliver", "POST /ui/receivers/{receiver}/redeliver",
		"POST /ui/receivers/pause", "POST /ui/receivers/resume", "POST /ui/receivers/limit", "POST /ui/redirects/{redirect}/stop",
		"POST /ui/redirects/{redirect}/resume", "GET /ui/replays/new", "POST /ui/replays", "POST /ui/replays/{replay}/stop",
		"POST /ui/replays/{replay}/resume"},
}

func TestPagesRequireTheirRoles(t *testing.T) {
	s := newSite(t)
	roles := s.pages.Roles()
	listed := 0
	for role, patterns := range requiredRoles {
		for _, pattern := range patterns {
			if listed++; roles[pattern] != role {
				t.Errorf("%s requires %s, want %s", pattern, roles[pattern], role)
			}
		}
	}
	if listed != len(roles) {
		t.Errorf("%d pages are served, %d are in the table: %v", len(roles), listed, slices.Sorted(maps.Keys(roles)))
	}
}

func TestPagesRefuseLowerRoles(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	before := s.engine.Changes()
	x := subject{key: "app1:orders:paid:2", route: "orders", reason: "timeout", host: "shop.example", prefix: "app1:orders", link: "none"}
	refused := 0
	for pattern, required := range s.pages.Roles() {
		for _, role := range []auth.Role{auth.Read, auth.Produce} {
			if role.Includes(required) {
				continue
			}
			who := s.as(ui.Visitor{Role: role})
			for _, a := range asks(t, pattern, x) {
				refused++
				who.ask(a).is(403).says("This needs the role "+required.String(), "has the role "+role.String())
			}
		}
	}
	if n := s.engine.Changes() - before; n != 0 || refused < 15 {
		t.Errorf("%d changes by %d refused requests", n, refused)
	}
}

func TestSessionsAreLimitedByTheirClientsRate(t *testing.T) {
	s := newSite(t)
	s.meter = auth.NewMeter([]auth.Client{{Name: "me", Rate: 2}})
	s = s.as(ui.Visitor{})
	s.get("/ui/routes").is(200)
	s.get("/ui/routes").is(200)
	if a := s.get("/ui/routes").is(429); a.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
}

func TestPagesOfferOnlyButtonsOfTheRole(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	if err := s.engine.PauseReceiver(t.Context(), "", receivers.Receiver{Host: "shop.example"}, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	group := "/ui/dead/group?" + url.Values{"route": {"orders"}, "reason": {"timeout"}, "host": {"shop.example"}}.Encode()
	actions := []string{"cancel", "fire", "purge", "receivers/limit", "receivers/pause", "receivers/resume", "redrive", "reschedule",
		"routes/orders/pause", "test"}
	pages := []string{"/ui/", "/ui/notices/app1:orders:paid:1", "/ui/notices/app1:orders:paid:2", group, "/ui/routes", "/ui/receivers"}
	for role, want := range map[auth.Role][]string{
		auth.Read:    nil,
		auth.Produce: {"cancel", "fire", "reschedule"},
		auth.Operate: actions,
	} {
		who := s.as(ui.Visitor{Role: role})
		var offered []string
		for _, path := range pages {
			body := who.get(path).is(200).body
			for _, action := range actions {
				if strings.Contains(body, "/"+action+`"`) && !slices.Contains(offered, action) {
					offered = append(offered, action)
				}
			}
		}
		if slices.Sort(offered); !slices.Equal(offered, want) {
			t.Errorf("%s is offered %v, want %v", role, offered, want)
		}
	}
}
