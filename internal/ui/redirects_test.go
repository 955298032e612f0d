package ui_test

import (
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/jobs"
	"notifier/internal/mask"
	"notifier/internal/ui"
)

// putRedirect stores a redirect of notices under app1:orders.
func (s *site) putRedirect(x jobs.Job) {
	s.t.Helper()
	x.Made = time.Now().UTC()
	x.Changed = x.Made
	if x.To == "" {
		x.Rule = jobs.Rule{From: "https://shop.example/hooks", To: "https://new.example/in", Prefix: "app1:orders", Audience: "m17"}
	}
	if err := (jobs.Store{Store: s.engine.Store()}).Add(s.t.Context(), &x, jobs.MaxJobs); err != nil {
		s.t.Fatal(err)
	}
}

// The list shows redirects without queries, and stops and resumes them.
func TestReceiversPageListsRedirects(t *testing.T) {
	s := newSite(t)
	s.get("/ui/receivers").says("notifier redirect changes the address").saysNot(`id="redirects-title"`)
	s.putRedirect(jobs.Job{ID: "rdr_done", State: jobs.Done, Client: "ops", Redirected: 7123, Refused: 4})
	s.putRedirect(jobs.Job{ID: "rdr_failed", State: jobs.Failed, Reason: "notices are being moved",
		Rule: jobs.Rule{To: "https://new.example/in?token=unseen", Host: "old.example"}})
	s.putRedirect(jobs.Job{ID: "rdr_stopped", State: jobs.Stopped, InFlight: 3, Seen: 20, Total: 50})
	s = s.as(ui.Visitor{})
	page := s.get("/ui/receivers").is(200).says("· ops",
		"https://shop.example/hooks → https://new.example/in app1:orders , audience m17 done 7,123 0 4",
		"all addresses of old.example → https://new.example/in all failed notices are being moved",
		"stopped 20 of 50 read Resume 0 3 0").saysNot("unseen")
	if len(page.forms("/ui/redirects/rdr_done/resume")) > 0 || len(page.forms("/ui/redirects/rdr_stopped/stop")) > 0 {
		t.Error("the page offers a button without effect")
	}
	s.press(page, "/ui/redirects/rdr_stopped/resume").says("The redirect is resumed.")
	if to := s.post("/ui/redirects/rdr_done/stop").is(303).Header.Get("Location"); to != "/ui/receivers?said=redirect-unchanged" {
		t.Errorf("the stop of a finished redirect leads to %s", to)
	}
	s.post("/ui/redirects/rdr_none/stop").is(404)

	list, err := s.engine.Audited(t.Context(), audit.Range{}, 20)
	if err != nil {
		t.Fatal(err)
	}
	noted := 0
	for _, e := range list {
		if e.Action == audit.RedirectGoOn && e.Detail == "rdr_stopped" && e.Prefix == "app1:orders" && e.Client == "me" {
			noted++
		}
		if e.Action == audit.RedirectStop {
			t.Errorf("the audit has a stop that changed nothing: %+v", e)
		}
	}
	if noted != 1 {
		t.Errorf("the audit has %d entries of the resume: %v", noted, list)
	}

	other := s.as(ui.Visitor{Prefix: "app2"})
	other.get("/ui/receivers").saysNot("rdr_", "new.example")
	other.post("/ui/redirects/rdr_failed/resume").is(404)
	s.as(ui.Visitor{Role: auth.Read}).get("/ui/receivers").says("https://new.example/in").saysNot("notifier redirect", "/resume")
	s.mask, err = mask.New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	s.as(ui.Visitor{}).get("/ui/receivers").says("shop.example → new.example").saysNot("/hooks")
}

// The list shows bulk changes, and stops and resumes them.
func TestReceiversPageListsBulkChanges(t *testing.T) {
	s := newSite(t)
	s.get("/ui/receivers").saysNot(`id="jobs-title"`)
	rule := jobs.Rule{To: "-", Prefix: "app1:orders", Host: "shop.example"} // the test's To is not shown
	s.putRedirect(jobs.Job{ID: "job_done", Kind: jobs.KindCancel, State: jobs.Done, Client: "ops", Rule: rule, Redirected: 7123, Claimed: 4})
	s.putRedirect(jobs.Job{ID: "job_stopped", Kind: jobs.KindPurge, State: jobs.Stopped, Rule: rule, Seen: 20, Total: 50})
	s = s.as(ui.Visitor{})
	page := s.get("/ui/receivers").is(200).says("Bulk changes", "Cancel pending notices app1:orders , shop.example done 7,123 4 0",
		"Purge dead letters app1:orders , shop.example stopped 20 of 50 read Resume 0 0 0")
	s.press(page, "/ui/redirects/job_stopped/resume").says("The job is resumed.")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/receivers").saysNot("job_", "Bulk changes")
}
