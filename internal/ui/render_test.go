package ui

import (
	"strconv"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/problems"
)

// BenchmarkFirstPage renders the first page of ten routes with an hour of figures.
func BenchmarkFirstPage(b *testing.B) {
	page := view{Title: say("nav|Now"), Nav: screens, Content: nowContent(busyNow())}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := english.render(document(page)); err != nil {
			b.Fatal(err)
		}
	}
}

// busyNow returns the data of the first page of ten routes.
func busyNow() nowPage {
	now := time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)
	due := stamp{now.Format(time.RFC3339), "2026-11-22 09:30:00 UTC", fromNow(now, now), "09:30:00"}
	counts, work := make([]int64, problems.Spans), make([]fleet.Work, problems.Spans)
	for i := range counts {
		counts[i] = int64(i * i)
		work[i].Late = fleet.Spread{i % 40: int64(i)}
	}

	d := nowPage{CountsAt: due, All: true, Examined: true, Heat: heatMap(work, now), Coming: comingHour(counts, now)}
	for i := range 10 {
		name := "route" + strconv.Itoa(i)
		d.Cards = append(d.Cards, card{Name: name, Prefix: "app1:" + name, Target: plain("https://shop.example"), Configured: true,
			Pending: 12345,
			Waiting: 3, Dead: 2, Rate: 12, P50: plain(time.Millisecond), P99: plain(time.Second), NextDue: due, Spark: sparkline(counts),
			Level: fine})
		d.Matters = append(d.Matters, matter{Level: wrong, Title: say("%s is paused", name), Why: say("No notice of the route is due yet."),
			Links: []link{{noticesPath("route", name), say("Notices")}}})
		d.Instances = append(d.Instances, instanceRow{Label: name, Version: "v1", State: "alive", Alive: true, Seen: due, Started: due,
			Tells: true})
	}
	return d
}
