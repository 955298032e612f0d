package ui_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/fleet"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/ui"
)

// Masked values are on no page, in no sample of a group, in no download and in no response, and no search
// finds them.
func TestMaskedValuesAreOnNoPageAndInNoDownload(t *testing.T) {
	words := []string{"4111111111111111", "secretword", "secretheader", "secretquery", "secretpass", "secretauth"}
	for name, c := range map[string]struct {
		all         bool
		paths       string
		shown, gone []string
	}{
		"nothing": {false, "", append([]string{"4711", "seven"}, words...), nil},
		"paths":   {false, "$.card.number, $..pin", []string{"4711", "seven"}, words},
		"another": {false, "$.iban", append([]string{"4711", "seven"}, words...), nil},
		"all":     {true, "", nil, append([]string{"4711", "seven"}, words...)},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := mask.New(c.all, c.paths)
			if err != nil {
				t.Fatal(err)
			}
			echo := "4111111111111111 secretword secretheader secretquery 4711"
			engine, at := instances(t, 1, clients, func(o *ui.Options) {
				o.Mask = rules
				o.Tests = api.NewTestSender(api.TestOptions{Routes: o.Routes, Mask: rules,
					Probe: func(_ context.Context, _ *route.Route, n *notice.Notice) callback.Exchange {
						return callback.Exchange{Method: "POST", URL: callback.RedactURL(n.URL),
							RequestHeaders: slices.Concat(n.Headers, []notice.Header{{Name: "pin", Value: "secretheader"}}), RequestBody: string(n.Body),
							Status: 200, ResponseHeaders: []notice.Header{{Name: "x-echo", Value: echo}, {Name: "Pin", Value: "secretheader"}},
							ResponseBody: echo, Result: notice.DeliveredResult(200)}
					}})
			})
			const key = "app1:orders:t:1"
			body := []byte(`{ "order": 4711,"card":{"number":"4111111111111111"},"x":[{"pin":"secretword"}]}`)
			if _, err := engine.Schedule(t.Context(), store.Request{Key: key, Content: notice.Content{URL: "https://me:secretpass@shop.example/?n=seven&pin=secretquery", Body: body,
				Headers: []notice.Header{{Name: "Pin", Value: "secretheader"}, {Name: "X-Tenant", Value: "seven"},
					{Name: "Authorization", Value: "secretauth"}}}}); err != nil {
				t.Fatal(err)
			}
			engine.Answers(echo)
			engine.Move(key, notice.Dead, notice.ReasonStatus5xx)
			engine.Tell(fleet.Figures{Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "shop.example:443", Calls: 1, Failed: 1}}})
			b := signedIn(t, at[0], "token-of-shop")
			all, lost := "", len(c.gone) > 0
			for _, path := range []string{"/ui/notices/" + key, "/ui/receivers/shop.example:443", "/ui/dead", "/ui/notices?state=dead", "/ui/notices.csv?q=dead", "/ui/dead/group?route=orders&reason=status_5xx&host=shop.example",
				"/ui/dead/download?route=orders&reason=status_5xx&host=shop.example"} {
				a := b.get(path)
				if a.StatusCode != 200 {
					t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
				}
				all += a.body
				if masked := strings.Contains(a.body, `"masked":true`); strings.Contains(path, "download") && masked != lost {
					t.Errorf("%s", a.body)
				}
			}
			// The warning precedes the button.
			group := b.get("/ui/dead/group?route=orders&reason=status_5xx&host=shop.example").body
			warning, button := strings.Index(group, "A purge cannot be undone"), strings.Index(group, ">Purge 1 notice")
			if said := warning >= 0; said != lost || said && warning > button ||
				strings.Contains(group, "restores the notices of the file") == lost {
				t.Errorf("of a purge the page says %s", group)
			}
			a := b.do("POST", "/ui/notices/"+key+"/test", url.Values{"csrf": {b.csrf()}})
			if a.StatusCode != 200 {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			all += a.body
			for _, s := range c.gone {
				if strings.Contains(all, s) {
					t.Errorf("%s is shown", s)
				}
			}
			for _, s := range c.shown {
				if !strings.Contains(all, s) {
					t.Errorf("%s is not shown", s)
				}
			}
			for _, s := range words {
				if found := b.get("/ui/notices?q=" + s); found.StatusCode != 200 || strings.Contains(found.body, key) ||
					!strings.Contains(found.body, "No notice matches") &&
						!strings.Contains(found.body, "ext is not searched") &&
						!strings.Contains(found.body, "Text is searched in the history only") {
					t.Errorf("a search for %s, which is in no key, finds something: %d %s", s, found.StatusCode, found.body)
				}
			}
		})
	}
}

// Bodies like forms, flattened names and nested JSON are masked on pages and in downloads. So are
// responses that repeat a value in another spelling.
func TestMaskedValueIsOnNoPage(t *testing.T) {
	const number = `4111"1111`
	rules, err := mask.New(false, "$.card.number")
	if err != nil {
		t.Fatal(err)
	}
	const form = "application/x-www-form-urlencoded"
	for body, contentType := range map[string]string{
		number + ",737,x=1":                                                 "text/plain",
		"PAN:" + number + ";a=b":                                            "",
		"card[number]=4111%221111":                                          form,
		"card.number=4111%221111":                                           form,
		`{"card.number":"4111\"1111"}`:                                      "",
		`{"biz":"{\"card\":{\"number\":\"4111\\\"1111\"}}"}`:                "",
		`biz_content={"card":{"number":"4111\"1111"}}`:                      form,
		`{"card":{"number":"4111\"1111"},"note":"4111\"1111","x":"\u0034"}`: "",
	} {
		engine, at := instances(t, 1, clients, func(o *ui.Options) { o.Mask = rules })
		const key = "app1:orders:t:1"
		c := notice.Content{URL: "https://shop.example/?card.number=4111%221111", ContentType: contentType, Body: []byte(body)}
		if _, err := engine.Schedule(t.Context(), store.Request{Key: key, Content: c}); err != nil {
			t.Fatal(err)
		}
		engine.Answers(`{"msg":"4111\"1111","again":"4111\u00221111"} `)
		engine.Move(key, notice.Dead, notice.ReasonStatus5xx)
		b := signedIn(t, at[0], "token-of-shop")
		for _, path := range []string{"/ui/notices/" + key, "/ui/dead", "/ui/dead/group?route=orders&reason=status_5xx&host=shop.example",
			"/ui/dead/download?route=orders&reason=status_5xx&host=shop.example"} {
			a := b.get(path)
			if a.StatusCode != 200 {
				t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
			}
			for _, spelled := range []string{number, `4111\"1111`, `4111\\\"1111`, "4111&#34;1111", "4111%221111", `4111\u00221111`, `4111\&#34;1111`} {
				if strings.Contains(a.body, spelled) {
					t.Errorf("%s shows %s of %s", path, spelled, body)
				}
			}
		}
	}
}
