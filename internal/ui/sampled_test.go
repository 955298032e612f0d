package ui_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"notifier/internal/doctor"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// Regression test: counts are up to 30 s old, and "next due 28s ago" stood beside "overdue 0". Distances are those at the
// time of the sample, which the page shows.
func TestFiguresAreRelativeToTheirSample(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, 30*time.Minute)
	read := func() (due, counted, listed string) {
		t.Helper()
		page := s.get("/ui/").is(200).body
		part := func(text string) string {
			t.Helper()
			found := regexp.MustCompile(text).FindStringSubmatch(page)
			if found == nil {
				t.Fatalf("no %s in %s", text, page)
			}
			return found[1]
		}
		const at = `(?s)-at" class="soft">.*?datetime="([^"]*)"`
		return part(`next due .*?· ([^<]*)<`), part("routes" + at), part("service" + at)
	}
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		due, counted, listed := read()
		time.Sleep(1100 * time.Millisecond) // sleep: heartbeats are read again after this time, and counts seldom
		again, same, other := read()
		if same != counted || other == listed {
			continue
		}
		if again != due {
			t.Errorf("of the same sample: %q, then %q", due, again)
		}
		return
	}
	t.Error("the counts were read with each sample")
}

// Regression test: the first page after a start said "No problems found" before the checks of doctor were made. A page that is not live
// makes them begin too.
func TestNowFindsNoProblemsOnlyOnceRead(t *testing.T) {
	s := newSite(t)
	began, end := make(chan struct{}), make(chan struct{})
	s.examine = func(context.Context) (*doctor.Report, error) {
		close(began)
		<-end
		return &doctor.Report{}, nil
	}
	s = s.as(ui.Visitor{})
	_, stop := s.serve()
	defer stop()
	s.get("/ui/").is(200).says("Not read yet.").saysNot("No problems found")
	if page := s.in("zh-CN", "", "/ui/").body; !strings.Contains(page, "尚未读取。") || strings.Contains(page, "未发现问题") {
		t.Errorf("in Chinese: %s", page)
	}

	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/").is(200).says("No problems found") // without the checks, which are not for this visitor
	<-began
	close(end)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.get("/ui/").body, "No problems found"); {
		if time.Now().After(deadline) {
			t.Fatal("nothing found after the checks")
		}
	}
}
