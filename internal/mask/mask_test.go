package mask

import (
	"strings"
	"testing"
)

func rules(t *testing.T, paths string) *Rules {
	t.Helper()
	r, err := New(false, paths)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBodies(t *testing.T) {
	const card = `{"order":"4711","card":{"number":"4111111111111111","name":"A"},"items":[{"cvv":123,"n":1.50},{"cvv":"456"}],"pan":null}`
	for _, c := range []struct{ paths, body, want string }{
		{"", card, card},
		{"$.card.number", card, strings.Replace(card, `"4111111111111111"`, `"•••"`, 1)},
		{"card.number", card, strings.Replace(card, `"4111111111111111"`, `"•••"`, 1)},
		{"['card'][\"number\"]", card, strings.Replace(card, `"4111111111111111"`, `"•••"`, 1)},
		{"CARD.Number", card, strings.Replace(card, `"4111111111111111"`, `"•••"`, 1)},
		{"card", card, strings.Replace(card, `{"number":"4111111111111111","name":"A"}`, `"•••"`, 1)},
		{"items[*].cvv", card, strings.NewReplacer(`123`, `"•••"`, `"456"`, `"•••"`).Replace(card)},
		{"items.*.cvv", card, strings.NewReplacer(`123`, `"•••"`, `"456"`, `"•••"`).Replace(card)},
		{"items[1].cvv", card, strings.Replace(card, `"456"`, `"•••"`, 1)},
		{"$..cvv, pan", card, strings.NewReplacer(`123`, `"•••"`, `"456"`, `"•••"`, `null`, `"•••"`).Replace(card)},
		{"$..card..name", card, strings.Replace(card, `"A"`, `"•••"`, 1)},
		{"$.*", `{"a":1,"b":[2]}`, `{"a":"•••","b":"•••"}`},
		{"$[0]", `["a","b"]`, `["•••","b"]`},
		{"$..[0]", `[["a"],["b","c"]]`, `["•••",["•••","c"]]`},
		{"a", `{"a":1,"a":2}`, `{"a":"•••","a":"•••"}`},
		{"a", `{"\u0061":1}`, `{"a":"•••"}`},
		{"a", `{"b":{"a":1}}`, `{"b":{"a":1}}`},
		{"a", `"a"`, `"a"`},
		{"a", ` {"b" : 1e400, "c":"<&>\u2028"} `, ` {"b" : 1e400, "c":"<&>\u2028"} `},
		{"a", ` {"b" : 1e400, "c":"<&>\u2028", "a": 1} `, `{"b":1e400,"c":"<&>\u2028","a":"•••"}`},
		{"card", "order=4711&card=4111&x=%20", "order=4711&card=•••&x=%20"},
		{"card", "c%61rd=4111", "c%61rd=•••"},
		{"$..card", "order=1&card=2", "order=1&card=•••"},
	} {
		got, ok := rules(t, c.paths).Body([]byte(c.body))
		if !ok || string(got) != c.want {
			t.Errorf("%s of %s:\n%s, %v, want\n%s", c.paths, c.body, got, ok, c.want)
		}
	}
	// What is no JSON is hidden whole.
	for _, body := range []string{"card 4111", `{"a":1`, `{"a":1}{"card":2}`, "\x00\x01", "<card>4111</card>", `{"a":1} x`, "a=1&b", `{"a=1`, "{]"} {
		if got, ok := rules(t, "card").Body([]byte(body)); ok || got != nil {
			t.Errorf("%q: %q is shown", body, got)
		}
	}
	all, err := New(true, "a")
	if err != nil || !all.All() || all.None() {
		t.Fatal(err)
	}
	if got, ok := all.Body([]byte("{}")); ok || got != nil {
		t.Errorf("%q", got)
	}
	if got, ok := all.Body(nil); !ok || got != nil {
		t.Error("an empty body is hidden")
	}
	var none *Rules
	if got, ok := none.Body([]byte("x")); !ok || string(got) != "x" || !none.None() || none.All() {
		t.Errorf("%q", got)
	}
	deep := strings.Repeat("[", 20000)
	if got, ok := rules(t, "a").Body([]byte(deep)); ok {
		t.Errorf("%.20s", got)
	}
}

func TestAnswers(t *testing.T) {
	const body = `{"card":{"number":"4111111111111111","exp":"1","holder":"Ada"},"token":"4111"}`
	r := rules(t, "card, token")
	for text, want := range map[string]string{
		"ok":                            "ok",
		"":                              "",
		`{"code":"SUCCESS"}`:            `{"code":"SUCCESS"}`,
		`{"card":"x","ok":true}`:        `{"card":"•••","ok":true}`,
		`{"ok":true,"msg":"cut he`:      `{"ok":true,"msg":…`,
		`{"ok":true,"card":{"nu`:        `{"ok":true,"card":"•••"…`,
		"no 4111111111111111, no 4111!": "no •••, no •••!",
		"Ada owes 1":                    "Ada owes 1", // too short to be looked for
		`{"msg":"4111111111111111"}`:    `{"msg":"•••"}`,
	} {
		if got, ok := r.Answer(text, Sent{Body: []byte(body)}); !ok || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"card=4111", "wrong Card number", `{"a":x`, "tokens"} {
		if got, ok := r.Answer(text, Sent{Body: []byte(body)}); ok || got != "" {
			t.Errorf("%q: %q is shown", text, got)
		}
	}
	all, err := New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := all.Answer("ok", Sent{}); ok || got != "" {
		t.Errorf("%q", got)
	}
	var none *Rules
	if got, ok := none.Answer("x", Sent{}); !ok || got != "x" {
		t.Errorf("%q", got)
	}
}

func TestAddressesAndHeaders(t *testing.T) {
	r := rules(t, "$.token, $..pan, card.number")
	for address, want := range map[string]string{
		"https://shop.example/hook":                          "https://shop.example/hook",
		"https://shop.example/hook?order=1&TOKEN=abcd&x=%20": "https://shop.example/hook?order=1&TOKEN=•••&x=%20",
		"https://shop.example/?p%61n=4111":                   "https://shop.example/?p%61n=•••",
		"https://shop.example/?4111111111111111":             "https://shop.example/?•••",
		"https://shop.example/?a=1&b":                        "https://shop.example/?•••",
		"https://shop.example/?card=1":                       "https://shop.example/?card=1",
		"https://shop.example/?a=1#4111":                     "https://shop.example/?a=1#•••",
		"":                                                   "",
	} {
		if got, all := r.URL(address); got != want || all != (want == address) {
			t.Errorf("%s: %s, %v, want %s", address, got, all, want)
		}
	}
	for name, want := range map[string]bool{"Token": false, "PAN": false, "x-token": true, "number": true} {
		if r.Header(name) != want {
			t.Errorf("%s may be seen: %v", name, !want)
		}
	}
	all, err := New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, whole := all.URL("https://shop.example/hook?a=1"); got != "https://shop.example/hook?•••" || whole || all.Header("x") {
		t.Errorf("%s, %v", got, whole)
	}
	var none *Rules
	if got, whole := none.URL("https://x/?a#b"); got != "https://x/?a#b" || !whole || !none.Header("token") {
		t.Errorf("%s, %v", got, whole)
	}
}

// An answer tells nothing that is hidden of a form, an address, a header, or a body of
// which nobody can say what it holds.
func TestAnswersThatRepeatWhatWasSent(t *testing.T) {
	r := rules(t, "$.card, token")
	for name, c := range map[string]struct {
		sent       Sent
		text, want string
	}{
		"a form":               {Sent{Body: []byte("order=4711&card=4111%2D1111")}, "4711: 4111-1111 or 4111%2D1111?", "4711: ••• or •••?"},
		"an address":           {Sent{URL: "https://x/?order=4711&token=ab%20cd#e"}, "4711: ab cd", "4711: •••"},
		"a query that is one":  {Sent{URL: "https://x/?41111111"}, "bad 41111111", "bad •••"},
		"a header":             {Sent{Headers: map[string]string{"Token": "Bearer abcdef", "Other": "ghijkl"}}, "no abcdef, ghijkl", "no •••, ghijkl"},
		"no word of a body":    {Sent{Body: []byte("<card>4111</card>")}, "ok, done", "ok, done"},
		"a word of a body":     {Sent{Body: []byte("<pay>4111</pay>")}, "wrong (4111)", ""},
		"JSON, word of a body": {Sent{Body: []byte("<pay>4111</pay>")}, `{"wrong":"4111"}`, ""},
	} {
		if got, ok := r.Answer(c.text, c.sent); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, c.want)
		}
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for _, bad := range []string{"$", "a..", "a.", ".", "a[", "a[x]", "a[-1]", "a[]", "a]", "$..", "a b", "['']", strings.Repeat("a.", 40) + "a"} {
		if _, err := New(false, bad); err == nil {
			t.Errorf("%q is a path", bad)
		}
	}
	if _, err := New(false, strings.Repeat("a,", 101)); err == nil {
		t.Error("101 paths")
	}
	if r, err := New(false, " , "); err != nil || !r.None() {
		t.Errorf("%v", err)
	}
}

// A text body may be as long as MAX_BODY and need not be JSON: a walk as deep as its
// brackets would fill the stack, which ends the process, whoever recovers.
func TestABodyNestedMillionsDeepIsHiddenWhole(t *testing.T) {
	r := rules(t, "$..card, $..a..a..a..b")
	for _, unit := range []string{"[", `{"a":`, `[{"a":`} {
		body := []byte(strings.Repeat(unit, (16<<20)/len(unit)))
		if _, ok := r.Body(body); ok {
			t.Errorf("what begins with %s again and again is shown", unit)
		}
		if _, ok := r.Answer("taken, thanks", Sent{Body: body}); !ok {
			t.Error("an answer that repeats nothing is hidden")
		}
	}
	for _, deep := range []int{maxDepth, maxDepth + 1} {
		body := strings.Repeat("[", deep) + strings.Repeat("]", deep)
		if _, ok := r.Body([]byte(body)); ok != (deep == maxDepth) {
			t.Errorf("%d levels are shown: %t", deep, ok)
		}
	}
	// Nor does what is kept for a level grow with the levels above it.
	trail := r.start
	for range maxDepth {
		if trail, _ = trail.down("a", -1); len(trail) > 5 {
			t.Fatalf("%d marks", len(trail))
		}
	}
}

// Whatever a body is, what a path leads to is not in what is shown.
func FuzzNothingHiddenIsShown(f *testing.F) {
	for _, s := range []string{`{"card":"§"}`, `[{"card":"§"}]`, `{"a":{"card":["§"]}}`, "card=§", `{"card":"§"`, "§", `{"x":"§","card":1}`} {
		f.Add(s)
	}
	r, err := New(false, "$..card")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		shown, ok := r.Body([]byte(body))
		if !ok && shown != nil {
			t.Errorf("%q is hidden and shown", body)
		}
		if again, ok2 := r.Body(shown); ok && (!ok2 || string(again) != string(shown)) {
			t.Errorf("%q: what is shown is not what is shown of it: %q, %q", body, shown, again)
		}
	})
}
