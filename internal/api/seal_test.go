package api_test

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/testkit"
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
		for _, role := range []auth.Role{auth.Read, auth.Operate} {
			o.Clients = append(o.Clients, auth.Client{Name: role.String(), Token: "token-of-" + role.String(), Role: role})
		}
		o.Clients = append(o.Clients, auth.Client{Name: "admin", Token: "token-of-admin", Role: auth.Admin})
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
	got := unsized(b.as("token-of-admin").do("GET", "/v1/history?key="+key, "").is(200).says(`"sealed":true`, `"forgotten_at":"20`))
	testkit.CheckSecrets(t, []string{card, full.Sealed}, got.raw)
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
	b.do("PUT", "/v1/recurrences/app1:orders:paid:1", `{"cron":"0 0 * * *","url":"https://shop.example/","audience":"m"}`).is(422).
		says("seals its notices")
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	id := (&notice.Notice{Key: "app1:orders:paid:1", Made: notice.MadeAt(made)}).ID()
	b.do("POST", "/v1/notices/restore", `[{"key":"app1:orders:paid:1","id":"`+id+`","state":"scheduled",`+
		`"due":"2026-12-01T00:00:00Z","created_at":"2026-11-01T00:00:00Z","url":"https://shop.example/","audience":"m","attempts_made":0,"attempts":[]}]`).
		is(201)
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(200).says(`"sealed":true`)
}
