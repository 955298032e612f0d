package doctor

import (
	"strings"
	"testing"

	"notifier/internal/auth"
	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

// Pauses by rules that the configuration does not have any more are reported with the command that resumes each, and so are those for
// clients without a notice. Those by clients and by present rules are not.
func TestExamineNamesPausesOfRemovedRules(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	prefix := cfg.Routes[0].Prefix
	fields := map[string]any{"#": 1,
		"both/gone.example:443/m1/" + prefix:      `{"at":1,"rule":"ON_STATUS 401","since":1}`,
		"host/status.example:443/" + prefix:       `{"at":1,"rule":"ON_STATUS 403","since":1}`,
		"host/after.example:443/" + prefix:        `{"at":1,"rule":"PAUSE_AFTER 24h","since":1}`,
		"host/none.example:443/other":             `{"at":1,"rule":"ON_STATUS 403","since":1}`,
		"host/owned.example:443/" + prefix + ":x": `{"at":1,"rule":"ON_STATUS 403","since":1}`,
		"host/resumed.example:443/" + prefix:      `{"at":1,"rule":"ON_STATUS 401","resumed":1}`,
		"host/client.example:443/" + prefix:       `{"at":1}`,
	}
	if err := s.Client().HSet(t.Context(), keys.Space{Namespace: "notifier"}.Receivers(), fields).Err(); err != nil {
		t.Fatal(err)
	}
	reported := func() (list []string) {
		for _, f := range examine(t, cfg, Options{}).Findings {
			if strings.HasPrefix(f.Remedy, "notifier resume --host ") {
				list = append(list, f.Remedy)
			}
		}
		return list
	}
	cfg.Clients = []config.Client{{Name: "x", Prefix: prefix + ":x", Role: auth.Produce}}
	cfg.Routes[0].OnStatus = route.OnStatus{401: route.ActionDead, 403: route.ActionPause}
	want := "notifier resume --host gone.example:443 --audience m1 --prefix " + prefix + ", " +
		"notifier resume --host after.example:443 --prefix " + prefix + ", notifier resume --host none.example:443 --prefix other"
	if got := strings.Join(reported(), ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	cfg.Routes[0].OnStatus[401], cfg.Routes[0].PauseAfter = route.ActionPause, 1
	if got := reported(); len(got) != 1 {
		t.Errorf("%q, want that of the prefix without a route", got)
	}
	cfg.Clients[0].Role = auth.Read // owns no notices any more
	if got := reported(); len(got) != 2 || got[1] != "notifier resume --host owned.example:443 --prefix "+prefix+":x" {
		t.Errorf("%q, want that of the prefix without a client too", got)
	}
}
