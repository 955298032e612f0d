package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

func TestSealedNoticeIsOpenedForOperators(t *testing.T) {
	t.Parallel()
	const card, key = "4111111111111111", "app1:orders:paid:1"
	b := newBench(t, func(o *api.Options) {
		for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate, auth.Admin} {
			o.Clients = append(o.Clients, auth.Client{Name: role.String(), Token: "token-of-" + role.String(), Role: role})
		}
		o.Routes.Prefix("app1:orders").Seal = seal.PerRoute
	})
	const call = `{"key":"` + key + `","delay":"1h","url":"https://u:` + card + `@shop.example/","body":{"card":"` + card + `"},` +
		`"headers":{"X-Card":"` + card + `"}}`
	made := b.as("token-of-produce").do("POST", "/v1/notices", call).is(201).says(`"sealed":true`)
	testkit.CheckSecrets(t, []string{card}, made.raw)
	b.as("token-of-produce").do("POST", "/v1/notices", call).is(200)
	for _, target := range []string{"/v1/notices/" + key, "/v1/notices?prefix=app1", "/v1/search?q=" + key} {
		for _, role := range []string{"read", "produce"} {
			got := b.as("token-of-"+role).do("GET", target, "").is(200).says(`"sealed":true`)
			testkit.CheckSecrets(t, []string{card}, got.raw)
		}
		for _, role := range []string{"operate", "admin"} {
			b.as("token-of-"+role).do("GET", target, "").is(200).says(`"sealed":true`, `"body":{"card":"`+card+`"}`, "X-Card", "u:xxxxx@shop.example")
		}
	}
	file := b.as("token-of-admin").do("GET", "/v1/search.csv?q="+key, "").is(200).says(",https://shop.example/,sealed")
	testkit.CheckSecrets(t, []string{card}, file.raw)
}

func TestSealedEntryIsOpenedForOperators(t *testing.T) {
	t.Parallel()
	const card, key = "4111111111111111", "app1:orders:paid:50"
	d := remembers(t)
	b := newBench(t, withHistory(d), func(o *api.Options) {
		for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate, auth.Admin} {
			o.Clients = append(o.Clients, auth.Client{Name: role.String(), Token: "token-of-" + role.String(), Role: role})
		}
		o.Routes.Prefix("app1:orders").Seal = seal.PerAudience
	})
	b.as("token-of-admin").do("POST", "/v1/notices", `{"key":"`+key+`","delay":"1h","url":"https://u:`+card+`@shop.example/","audience":"m17",`+
		`"body":{"card":"`+card+`"},"headers":{"X-Card":"`+card+`"}}`).is(201)
	full := sealedRow(t, b.engine, key)
	bare := full
	bare.BodyKept, bare.Notice = false, &notice.Notice{Key: "app1:orders:paid:51", Route: full.Route, Made: full.Made, Due: full.Due}
	if _, err := d.Write(t.Context(), []history.Row{full, bare}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/v1/history?outcome=cancelled", "/v1/search?q=" + key} {
		got := b.as("token-of-read").do("GET", target, "").is(200).says(`"sealed":true`)
		testkit.CheckSecrets(t, []string{card, full.Sealed}, got.raw)
		got = b.as("token-of-operate").do("GET", target, "").is(200).says(`"sealed":true`, `"body":{"card":"`+card+`"}`, "X-Card")
		testkit.CheckSecrets(t, []string{full.Sealed}, got.raw)
	}
	unsized := func(got answer) answer {
		if strings.Contains(got.raw, "body_size") {
			t.Errorf("a size: %s", got.raw)
		}
		return got
	}
	unsized(b.as("token-of-read").do("GET", "/v1/history?key="+key, "").is(200))
	b.as("token-of-operate").do("GET", "/v1/history?key="+key, "").is(200).says(`"body_size":27`, `"body_kept":true`, "u:xxxxx@shop.example")
	unsized(b.as("token-of-operate").do("GET", "/v1/history?key=app1:orders:paid:51", "").is(200).says(`"sealed":true`, `"body_kept":false`))

	gone := full
	gone.Notice = &notice.Notice{Key: "app1:orders:paid:52", Route: full.Route, Made: full.Made, Due: full.Due}
	if _, err := d.Write(t.Context(), []history.Row{gone}); err != nil {
		t.Fatal(err)
	}
	b.as("token-of-operate").do("GET", "/v1/notices/app1:orders:paid:52", "").is(200).says(`"sealed":true`)

	b.as("token-of-admin").do("DELETE", "/v1/subjects/audience:m17", "").is(200)
	for _, role := range []string{"read", "produce", "operate", "admin"} {
		got := b.as("token-of-"+role).do("GET", "/v1/history?key="+key, "").is(200).says(`"sealed":true`, `"forgotten_at":"20`)
		testkit.CheckSecrets(t, []string{card, full.Sealed}, unsized(got).raw)
	}
}

// The roles read and produce get the url without its query, and the answers say so. Nothing that they are shown has the query.
func TestSealedQueryIsShownToOperatorsOnly(t *testing.T) {
	t.Parallel()
	const card, key, whole = "4111111111111111", "app1:orders:paid:1", `"url":"https://shop.example/paid?card=4111111111111111#there"`
	const part = `"url":"https://shop.example/paid","url_sealed":true`
	d := remembers(t)
	b := newBench(t, withHistory(d), func(o *api.Options) {
		for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate, auth.Admin} {
			o.Clients = append(o.Clients, auth.Client{Name: role.String(), Token: "token-of-" + role.String(), Role: role})
		}
		r := o.Routes.Prefix("app1:orders")
		r.Seal, r.SealURL = seal.PerRoute, true
	})
	call := `{"key":"` + key + `","delay":"1h",` + whole + `}`
	made := b.as("token-of-produce").do("POST", "/v1/notices", call).is(201).says(part)
	batch := b.as("token-of-produce").do("POST", "/v1/notices/batch", "["+call+"]").is(200).says(part)
	other := b.as("token-of-produce").do("POST", "/v1/notices", strings.Replace(call, card, card+"7", 1)).is(409)
	for _, got := range []answer{made, batch, other} {
		testkit.CheckSecrets(t, []string{card}, got.raw)
	}
	row := sealedRow(t, b.engine, key)
	if _, err := d.Write(t.Context(), []history.Row{row}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/v1/notices/" + key, "/v1/notices?prefix=app1", "/v1/search?q=" + key, "/v1/history?key=" + key,
		"/v1/search.csv?q=" + key} {
		for _, role := range []string{"read", "produce", "operate", "admin"} {
			got := b.as("token-of-"+role).do("GET", target, "").is(200)
			switch {
			case strings.Contains(target, "csv"):
				got.says(",https://shop.example/paid (query sealed),sealed")
				testkit.CheckSecrets(t, []string{card}, got.raw)
			case role == "read" || role == "produce":
				got.says(part)
				testkit.CheckSecrets(t, []string{card}, got.raw)
			default:
				if got.says(whole); strings.Contains(got.raw, "url_sealed") {
					t.Errorf("%s, %s: %s", target, role, got.raw)
				}
			}
		}
	}
	b.as("token-of-operate").do("PATCH", "/v1/notices/"+key, `{"url":"https://shop.example/other?card=`+card+`"}`).is(200).
		says(`"url":"https://shop.example/other?card=`+card+`"`, `"scheduled_url":"https://shop.example/paid"`)
	got := b.as("token-of-read").do("GET", "/v1/notices/"+key, "").is(200).says(`"url":"https://shop.example/other","url_sealed":true`)
	trail := b.as("token-of-admin").do("GET", "/v1/audit", "").is(200).says("readdress")
	testkit.CheckSecrets(t, []string{card}, got.raw, trail.raw)
}

func TestCallsThatSealedRoutesDoNotSupport(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.Routes.Prefix("app1:orders").Seal = seal.PerAudience })
	b.do("POST", "/v1/notices", `{"key":"app1:orders:paid:1","url":"https://shop.example/"}`).is(422).
		says("audience", "seals the content for each audience")
	b.do("PUT", "/v1/recurrences/app1:orders:paid:1", `{"cron":"0 0 * * *","url":"https://shop.example/"}`).is(422).
		says("body.audience", "seals the content for each audience")
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	id := (&notice.Notice{Key: "app1:orders:paid:1", Made: notice.MadeAt(made)}).ID()
	b.do("POST", "/v1/notices/restore", `[{"key":"app1:orders:paid:1","id":"`+id+`","state":"scheduled",`+
		`"due":"2026-12-01T00:00:00Z","created_at":"2026-11-01T00:00:00Z","url":"https://shop.example/","audience":"m","attempts_made":0,"attempts":[]}]`).
		is(201)
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(200).says(`"sealed":true`)
}

const sealedBooks = "/v1/recurrences/app1:orders:daily:books"

// sealedRecurrence is a bench with a client of each role, and a sealed recurrence of the audience m17.
func sealedRecurrence(t *testing.T) (b *bench, call string) {
	t.Helper()
	b = newBench(t, func(o *api.Options) {
		o.Clients = rolled
		o.Routes.Prefix("app1:orders").Seal = seal.PerAudience
	})
	call = `{"cron":"0 0 1 1 *","paused":true,"audience":"m17","url":"https://u:` + card + `@shop.example/","body":{"card":"` + card + `"},` +
		`"headers":{"X-Card":"` + card + `"}}`
	made := b.as("token-of-operator").do("PUT", sealedBooks, call).is(201).says(`"sealed":true`)
	testkit.CheckSecrets(t, []string{card}, made.raw)
	return b, call
}

func TestSealedRecurrenceIsOpenedForOperators(t *testing.T) {
	t.Parallel()
	b, call := sealedRecurrence(t)
	b.as("token-of-producer").do("PUT", sealedBooks+"?dry_run=true", call).is(200).says(card) // of the call itself
	b.as("token-of-producer").do("PUT", sealedBooks, call).is(200).says(`"sealed":true`, `"created":false`)
	for _, c := range [][2]string{{"GET", sealedBooks}, {"GET", "/v1/recurrences?prefix=app1"}, {"POST", sealedBooks + "/pause"}} {
		for _, role := range []string{"reader", "producer"} {
			if role == "reader" && c[0] == "POST" {
				continue
			}
			got := b.as("token-of-"+role).do(c[0], c[1], "").is(200).says(`"sealed":true`, `"audience":"m17"`, `"url":"https://shop.example/"`)
			testkit.CheckSecrets(t, []string{card, "s1r:"}, got.raw)
		}
		for _, role := range []string{"operator", "admin"} {
			got := b.as("token-of-"+role).do(c[0], c[1], "").is(200).says(`"sealed":true`, "X-Card", "u:xxxxx@shop.example")
			if c[1] != "/v1/recurrences?prefix=app1" {
				got.says(`"body":{"card":"` + card + `"}`)
			}
			testkit.CheckSecrets(t, []string{"s1r:"}, got.raw)
		}
	}
	got := b.as("token-of-producer").do("POST", sealedBooks+"/run", "").is(201).says(`"sealed":true`)
	testkit.CheckSecrets(t, []string{card}, got.raw)
	b.as("token-of-operator").do("GET", "/v1/notices/app1:orders:daily:books~1", "").is(200).says(`"body":{"card":"` + card + `"}`)
}

func TestOpenedRecurrencesAreInTheAudit(t *testing.T) {
	t.Parallel()
	b, call := sealedRecurrence(t)
	opened := func() (list []string) {
		var got struct{ Items []map[string]any }
		b.as("token-of-admin").do("GET", "/v1/audit", "").is(200).into(&got)
		for _, x := range got.Items {
			if testkit.CheckSecrets(t, []string{card}, fmt.Sprint(x)); x["action"] == "open" {
				list = append(list, fmt.Sprintf("%v %v %v %v", x["client"], x["key"], x["prefix"], x["detail"]))
			}
		}
		return list
	}
	b.as("token-of-reader").do("GET", sealedBooks, "").is(200)
	b.as("token-of-producer").do("POST", sealedBooks+"/pause", "").is(200)
	b.as("token-of-operator").do("PUT", sealedBooks, call).is(200)
	if list := opened(); len(list) > 0 {
		t.Errorf("%q", list)
	}
	b.as("token-of-operator").do("PUT", strings.Replace(sealedBooks, "books", "poll", 1), call).is(201)
	b.as("token-of-operator").do("GET", sealedBooks, "").is(200)
	b.as("token-of-operator").do("GET", "/v1/recurrences", "").is(200)
	want := []string{"operator <nil> app1:orders:daily in a listing", "operator app1:orders:daily:books <nil> <nil>"}
	if list := opened(); fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", list, want)
	}
}

func TestRecurrenceWithoutItsKey(t *testing.T) {
	t.Parallel()
	b, call := sealedRecurrence(t)
	b.engine.Fail(vault.ErrUnknownKey)
	b.as("token-of-producer").do("POST", sealedBooks+"/run", "").is(409).says("has lost the key", "again with PUT")
	b.engine.Fail(fmt.Errorf("%w: service key 2026-05", vault.ErrSealed))
	b.as("token-of-producer").do("PUT", sealedBooks, call).is(503).says("does not have a service key")
}

func TestForgottenRecurrenceSaysSo(t *testing.T) {
	t.Parallel()
	b, call := sealedRecurrence(t)
	b.as("token-of-admin").do("DELETE", "/v1/subjects/audience:m17", "").is(200)
	for _, target := range []string{sealedBooks, "/v1/recurrences"} {
		got := b.as("token-of-operator").do("GET", target, "").is(200).says(`"sealed":true`, `"forgotten_at":"20`)
		testkit.CheckSecrets(t, []string{card}, got.raw)
		b.as("token-of-producer").do("GET", target, "").is(200).says(`"sealed":true`, `"forgotten_at":"20`)
	}
	b.as("token-of-producer").do("PUT", sealedBooks, call).is(410).says("was forgotten on 20")
	b.as("token-of-producer").do("POST", sealedBooks+"/run", "").is(410).says("was forgotten on 20")
	b.as("token-of-producer").do("POST", sealedBooks+"/resume", "").is(200)
	b.as("token-of-admin").do("POST", "/v1/subjects/audience:m17/lift", "").is(200)
	b.as("token-of-producer").do("POST", sealedBooks+"/run", "").is(410)
	b.as("token-of-producer").do("PUT", sealedBooks, call).is(200)
	b.as("token-of-producer").do("POST", sealedBooks+"/run", "").is(201)
}
