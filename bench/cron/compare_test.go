package cron

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/cronexpr"
	robfig "github.com/robfig/cron/v3"

	"notifier/internal/recur"
)

// next is the search for the following tick of an implementation.
type next func(time.Time) time.Time

// parse returns the implementations of an expression: ours, robfig/cron and hashicorp/cronexpr.
func parse(t *testing.T, expression, zone string) (ours, robfigs, cronexprs next) {
	t.Helper()
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := recur.Parse(recur.Spec{Cron: expression, Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := robfig.ParseStandard(expression)
	if err != nil {
		t.Fatal(err)
	}
	other, err := cronexpr.Parse(expression)
	if err != nil {
		t.Fatal(err)
	}
	return rule.Next, func(at time.Time) time.Time { return schedule.Next(at.In(place)).UTC() },
		func(at time.Time) time.Time { return other.Next(at.In(place)).UTC() }
}

// Without changes of the clock, all three have the same ticks.
func TestRandomExpressionsHaveTheSameTicks(t *testing.T) {
	random, compared := rand.New(rand.NewPCG(1, 2)), 0
	for range 3000 {
		expression := anyExpression(random)
		if _, err := recur.Parse(recur.Spec{Cron: expression}); err != nil {
			if !strings.Contains(err.Error(), "matches no date") {
				t.Fatal(err)
			}
			continue
		}
		zone := []string{"UTC", "Asia/Shanghai", "Asia/Kathmandu"}[random.IntN(3)]
		ours, robfigs, cronexprs := parse(t, expression, zone)
		at := time.Date(2000+random.IntN(60), 1, 1, 0, 0, random.IntN(365*86400), 0, time.UTC)
		for range 20 {
			want := robfigs(at)
			if want.IsZero() || want.Year() >= 2095 {
				break // robfig/cron searches five years, cronexpr up to 2099
			}
			if got, other := ours(at), cronexprs(at); !got.Equal(want) || !got.Equal(other) {
				t.Fatalf("%q in %s after %s: %s, robfig/cron %s, cronexpr %s", expression, zone, at, got, want, other)
			}
			at = want
			compared++
		}
	}
	if compared < 30_000 {
		t.Errorf("only %d ticks were compared", compared)
	}
}

// anyExpression returns an expression. The day fields are not restricted both where one has a step of all days, as this
// is where the implementations differ.
func anyExpression(r *rand.Rand) string {
	parts := []string{anyField(r, 0, 59), anyField(r, 0, 23), anyField(r, 1, 31), anyField(r, 1, 12), anyField(r, 0, 6)}
	if day := 2 + 2*r.IntN(2); strings.HasPrefix(parts[2]+" "+parts[4], "*/") || strings.HasPrefix(parts[4], "*/") {
		parts[day] = "*"
	}
	return strings.Join(parts, " ")
}

func anyField(r *rand.Rand, low, high int) string {
	a := low + r.IntN(high-low+1)
	b := a + r.IntN(high-a+1)
	switch r.IntN(6) {
	case 0, 1:
		return "*"
	case 2:
		return fmt.Sprintf("*/%d", 2+r.IntN((high-low)/2))
	case 3:
		if b > a { // cronexpr takes 0-0 for *
			return fmt.Sprintf("%d-%d/%d", a, b, 1+r.IntN(b-a+1))
		}
	case 4:
		if b > a {
			return fmt.Sprintf("%d,%d-%d", low, a, b)
		}
	}
	return fmt.Sprint(a)
}

// Where the implementations differ, ours follows Vixie cron.
func TestDifferences(t *testing.T) {
	for _, c := range []struct{ name, expression, after, ours, robfig, cronexpr string }{
		{"a skipped time: the others skip the day", "30 2 * * *", "2026-03-28T12:00:00Z",
			"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-03-30T00:30:00Z"},
		{"a repeated time: once", "30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T01:30:00Z"},
		{"a step of all days does not restrict them", "0 0 */2 * 5", "2026-11-07T00:00:00Z",
			"2026-11-12T23:00:00Z", "2026-11-08T23:00:00Z", "2026-11-08T23:00:00Z"},
	} {
		ours, robfigs, cronexprs := parse(t, c.expression, "Europe/Berlin")
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got := [3]string{ours(at).Format(time.RFC3339), robfigs(at).Format(time.RFC3339), cronexprs(at).Format(time.RFC3339)}
		if want := [3]string{c.ours, c.robfig, c.cronexpr}; got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}
