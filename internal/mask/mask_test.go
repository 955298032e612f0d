package mask

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"notifier/internal/notice"
)

func rules(t *testing.T, paths string) *Rules {
	t.Helper()
	r, err := New(false, paths)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// headers returns headers of names and values in turn.
func headers(texts ...string) (list []notice.Header) {
	for pair := range slices.Chunk(texts, 2) {
		list = append(list, notice.Header{Name: pair[0], Value: pair[1]})
	}
	return list
}

func TestBodies(t *testing.T) {
	const card = `{"order":"4711","card":{"number":"4111111111111111","name":"A"},"items":[{"cvv":123,"n":1.50},{"cvv":"456"}],"pan":null}`
	for _, c := range []struct{ paths, body, want string }{
		{"", card, card},
		{"", "no JSON", "no JSON"},
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
		{"a", `null`, `null`},
		{"a", ` {"b" : 1e400, "c":"<&>\u2028"} `, ` {"b" : 1e400, "c":"<&>\u2028"} `},
		{"a", ` {"b" : 1e400, "c":"<&>\u2028", "a": 1} `, `{"b":1e400,"c":"<&>\u2028","a":"•••"}`},
	} {
		got, ok := body(t, c.paths, "application/json", c.body)
		if !ok || string(got) != c.want {
			t.Errorf("%s of %s:\n%s, %v, want\n%s", c.paths, c.body, got, ok, c.want)
		}
	}
	all, err := New(true, "a")
	if err != nil || !all.All() || all.None() {
		t.Fatal(err)
	}
	if got, ok := all.View(Sent{Body: []byte("{}")}).Body(); ok || got != nil {
		t.Errorf("%q", got)
	}
	if got, ok := all.View(Sent{}).Body(); !ok || got != nil {
		t.Error("an empty body is hidden")
	}
	var none *Rules
	if got, ok := none.View(Sent{Body: []byte("x")}).Body(); !ok || string(got) != "x" || !none.None() || none.All() {
		t.Errorf("%q", got)
	}
}

func body(t *testing.T, paths, contentType, text string) ([]byte, bool) {
	t.Helper()
	return rules(t, paths).View(Sent{ContentType: contentType, Body: []byte(text)}).Body()
}

const form = "application/x-www-form-urlencoded"

// A text with an equals sign is not a form: only the content type says so.
func TestBodyThatCannotBeParsedIsHidden(t *testing.T) {
	for _, text := range []string{"card 4111", `{"a":1`, `{"a":1}{"card":2}`, "\x00\x01", "<card>4111</card>", `{"a":1} x`, "a=1&b",
		`{"a=1`, "{]",
		"4111111111111111,737,x=1", "PAN:4111111111111111;a=b", "NDExMTExMTExMTExMTExMT0=", "a=1", "4111111111111111", `"4111111111111111"`,
		"{\"a\":\"\xff4111\"}",
		strings.Repeat("[", 20000)} {
		for _, contentType := range []string{"", "text/plain", "application/json", "multipart/form-data; boundary=x",
			"application/x-www-form-urlencodedx"} {
			if got, ok := body(t, "card", contentType, text); ok || got != nil {
				t.Errorf("%q as %q: %q is shown", text, contentType, got)
			}
		}
	}
	for _, text := range []string{"a=1&b", "a=1&", "4111111111111111,737,x=1", "PAN:4111111111111111;a=b", "a=%zz", "%zz=1", "4111=1;5555",
		"=1", `{"a":"b=c"}`} {
		if got, ok := body(t, "card", form, text); ok || got != nil {
			t.Errorf("%q as a form: %q is shown", text, got)
		}
	}
}

func TestFormFieldsAreHiddenByPath(t *testing.T) {
	for _, c := range []struct{ paths, text, want string }{
		{"card", "order=4711&card=4111&x=%20", "order=4711&card=•••&x=%20"},
		{"card", "c%61rd=4111", "c%61rd=•••"},
		{"$..card", "order=1&card=2", "order=1&card=•••"},
		{"card", "a=1;card=4111", "a=1;card=•••"},
		{"card.number", "card[number]=4111&a=1", "card[number]=•••&a=1"},
		{"card.number", "card%5Bnumber%5D=4111", "card%5Bnumber%5D=•••"},
		{"card.number", "Card.Number=4111&card=x", "Card.Number=•••&card=x"},
		{"card.number", "card['number']=4111", ""}, // no name of a field
		{"items[*].cvv", "items[].cvv=123&items[0][cvv]=124&items.1.cvv=125&cvv=126",
			"items[].cvv=•••&items[0][cvv]=•••&items.1.cvv=•••&cvv=126"},
		{"items[1].cvv", "items[0].cvv=123&items[1].cvv=124&items[].cvv=125", "items[0].cvv=123&items[1].cvv=•••&items[].cvv=•••"},
		{"items.0", "items.0=123&items[1]=124", "items.0=•••&items[1]=124"},
		{"$..pin", "a[b][pin]=1234&a.pin.b=1", "a[b][pin]=•••&a.pin.b=•••"},
		{"card.number", `biz_content={"card":{"number":"4111"},"a":1}`,
			"biz_content=%7B%22card%22%3A%7B%22number%22%3A%22•••%22%7D%2C%22a%22%3A1%7D"},
		{"biz.card", `biz={"card":"4111"}`, "biz=%7B%22card%22%3A%22•••%22%7D"},
		{"card", `biz={"card":"4111"`, "biz=•••"},
		{"card", "data=card%3D4111%26a%3D1&b=2", "data=•••&b=2"},
		{"card", "card=4111111111111111&b=no+4111111111111111&x4111111111111111=1", "card=•••&b=no+•••&•••=1"},
	} {
		got, ok := body(t, c.paths, form+"; charset=utf-8", c.text)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s:\n%s, %v, want\n%s", c.paths, c.text, got, ok, c.want)
		}
	}
}

// JSON inside a string, and names that are flattened, are read as paths.
func TestNestedDocumentsAreMasked(t *testing.T) {
	deep := `{"card":"4111"}`
	for range maxNested + 1 {
		text, err := json.Marshal(map[string]string{"a": deep})
		if err != nil {
			t.Fatal(err)
		}
		deep = string(text)
	}
	long := strings.Repeat("a.", maxSegments) + "a"
	for _, c := range []struct{ paths, text, want string }{
		{"card", `{"a":"{\"card\":\"4111\",\"b\":1}"}`, `{"a":"{\"card\":\"•••\",\"b\":1}"}`},
		{"a.card", `{"a":"{\"card\":\"4111\"}"}`, `{"a":"{\"card\":\"•••\"}"}`},
		{"card", `{"a":"\"{\\\"card\\\":1}\""}`, `{"a":"\"{\\\"card\\\":\\\"•••\\\"}\""}`},
		{"card", `{"a":"{\"card\":"}`, `{"a":"•••"}`},
		{"card", `{"a":"card=4111&b=1","b":"<card>4111</card>","c":"card"}`, `{"a":"•••","b":"•••","c":"card"}`},
		{"card", `{"a":"https://x/?c%61rd=4111"}`, `{"a":"•••"}`},
		{"card", `{"a":"eyJjYXJkIjoiNDExMSJ9","b":"eyJ4IjoxfQ.eyJjYXJkIjoiNDExMSJ9.x"}`, `{"a":"•••","b":"•••"}`},
		{"card", `{"a":"eyJ4IjoxfQ"}`, `{"a":"eyJ4IjoxfQ"}`},
		{"card", `{"a":"Y2FyZD00MTEx"}`, `{"a":"•••"}`}, // card=4111
		{"card", `{"` + long + `":"4111"}`, `{"` + long + `":"•••"}`},
		{"card.number", `{"card.number":"4111","card[number]":2}`, `{"card.number":"•••","card[number]":"•••"}`},
		{"card", `{"card":"4111111111111111","note":"no 4111111111111111","n":4111111111111111,"4111111111111111":1}`,
			`{"card":"•••","note":"no •••","n":"•••","•••":1}`},
		{"card", `{"card":"{\"n\":\"4111\"}","note":"4111"}`, `{"card":"•••","note":"•••"}`},
		{"card", `{"card":"[41111111]","note":"4111-1111"}`, `{"card":"•••","note":"•••"}`},
		{"card", `{"card":4111111111111111,"b":"4.111111111111111E15"}`, `{"card":"•••","b":"•••"}`},
		{"card", deep, ""},
	} {
		got, ok := body(t, c.paths, "", c.text)
		if c.want == "" {
			if strings.Contains(string(got), "4111") {
				t.Errorf("%s is shown", got)
			}
			continue
		}
		if !ok || string(got) != c.want {
			t.Errorf("%s of %s:\n%s, %v, want\n%s", c.paths, c.text, got, ok, c.want)
		}
	}
}

// list is a JSON array with a value for each number below n.
func list(n int, format string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(out, ",") + "]"
}

// With more than maxSecrets hidden values, all is hidden.
func TestTooManyHiddenValuesHideTheAnswer(t *testing.T) {
	for name, body := range map[string]string{"members": list(maxSecrets+1, `{"card":"card-%d"}`),
		"in a string": `{"card":"` + list(maxSecrets+1, `\"card-%d\"`) + `"}`} {
		v := rules(t, "$..card").View(Sent{Body: []byte(body)})
		if got, ok := v.Answer(fmt.Sprintf("card-%d", maxSecrets)); ok || got != "" {
			t.Errorf("%s: %q is shown", name, got)
		}
		if got, ok := v.Body(); ok || got != nil {
			t.Errorf("%s: %.40q is shown", name, got)
		}
		if got, whole := v.Header("Via", "x"); got != Hidden || whole {
			t.Errorf("%s: the header %q is shown", name, got)
		}
	}
}

// A text that would take long to search for the hidden values is hidden.
func TestLongAnswerToManyHiddenValuesIsHidden(t *testing.T) {
	v := rules(t, "$..card").View(Sent{Body: []byte(list(maxSecrets, `{"card":"hidden %d"}`))})
	most := strings.Repeat("x", maxWork/maxSecrets)
	for text, want := range map[string]bool{most: true, most + "x": false} {
		if got, ok := v.Answer(text); ok != want || ok != (got == text) {
			t.Errorf("%d bytes are shown: %v", len(text), ok)
		}
	}
}

// A path without a name may lead to anything, so a text that is no JSON is hidden.
func TestPathWithoutANameHidesTexts(t *testing.T) {
	for _, paths := range []string{"$.*", "$[0]", "$..[*]"} {
		if got, ok := rules(t, paths).View(Sent{}).Answer("done"); ok || got != "" {
			t.Errorf("%s: %q is shown", paths, got)
		}
	}
}

func TestAnswers(t *testing.T) {
	const body = `{"card":{"number":"4111111111111111","exp":"1","holder":"Ada"},"token":"tok7"}`
	r := rules(t, "card, token")
	for text, want := range map[string]string{
		"ok":                               "ok",
		"":                                 "",
		`{"code":"SUCCESS"}`:               `{"code":"SUCCESS"}`,
		`{"card":"x","ok":true}`:           `{"card":"•••","ok":true}`,
		`{"ok":true,"msg":"cut he`:         `{"ok":true,"msg":…`,
		`{"ok":true,"card":{"nu`:           `{"ok":true,"card":"•••"…`,
		"no 4111111111111111, no tok7!":    "no •••, no •••!",
		"Ada owes 1":                       "Ada owes 1", // too short for the search
		"no 4111 1111 1111 1111":           "",
		"no 4111-1111%2d1111-1111":         "",
		`no "4\u003111111111111111"`:       "",
		"NDExMTExMTExMTExMTExMQ":           "",
		"34313131313131313131313131313131": "",
		"cut at 411111111111":              "cut at •••",
		`{"msg":"4111111111111111"}`:       `{"msg":"•••"}`,
	} {
		if got, ok := r.View(Sent{Body: []byte(body)}).Answer(text); got != want || ok != (want != "" || text == "") {
			t.Errorf("%q: %q, %v, want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"card=4111", "wrong Card number", `{"a":x`, "tokens"} {
		if got, ok := r.View(Sent{Body: []byte(body)}).Answer(text); ok || got != "" {
			t.Errorf("%q: %q is shown", text, got)
		}
	}
	all, err := New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := all.View(Sent{}).Answer("ok"); ok || got != "" {
		t.Errorf("%q", got)
	}
	var none *Rules
	if got, ok := none.View(Sent{}).Answer("x"); !ok || got != "x" {
		t.Errorf("%q", got)
	}
}

func TestAddressesAndHeaders(t *testing.T) {
	r := rules(t, "$.token, $..pan, card.number")
	for address, want := range map[string]string{
		"https://shop.example/hook":                          "https://shop.example/hook",
		"https://shop.example/hook?":                         "https://shop.example/hook?",
		"https://shop.example/hook?order=1&TOKEN=abcd&x=%20": "https://shop.example/hook?order=1&TOKEN=•••&x=%20",
		"https://shop.example/?p%61n=4111":                   "https://shop.example/?p%61n=•••",
		"https://shop.example/?4111111111111111":             "https://shop.example/?•••",
		"https://shop.example/?a=1&b":                        "https://shop.example/?•••",
		"https://shop.example/?card=1":                       "https://shop.example/?card=1",
		"https://shop.example/?a=1#4111":                     "https://shop.example/?a=1#•••",
		"https://shop.example/?card.number=4111&a=1":         "https://shop.example/?card.number=•••&a=1",
		"https://shop.example/?card%5Bnumber%5D=4111":        "https://shop.example/?card%5Bnumber%5D=•••",
		"https://shop.example/?4111111111111111,x=1":         "https://shop.example/?•••",
		"https://shop.example/pay;token=4111/x?a=1":          "https://shop.example/•••?a=1",
		"https://shop.example/abcd?token=abcd":               "https://shop.example/•••?token=•••",
		"":                                                   "",
	} {
		if got, all := r.View(Sent{URL: address}).URL(); got != want || all != (want == address) {
			t.Errorf("%s: %s, %v, want %s", address, got, all, want)
		}
	}
	for name, want := range map[string]bool{"Token": false, "PAN": false, "x-token": true, "number": true, "card.number": false} {
		if got, whole := r.View(Sent{}).Header(name, "x"); whole != want || want != (got == "x") {
			t.Errorf("%s may be seen: %v", name, !want)
		}
	}
	all, err := New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	v := all.View(Sent{URL: "https://shop.example/hook?a=1"})
	if got, whole := v.URL(); got != "https://shop.example/hook?•••" || whole {
		t.Errorf("%s, %v", got, whole)
	}
	if got, whole := v.Header("x", "y"); got != Hidden || whole {
		t.Errorf("%s, %v", got, whole)
	}
	var none *Rules
	v = none.View(Sent{URL: "https://x/?a#b"})
	if got, whole := v.URL(); got != "https://x/?a#b" || !whole {
		t.Errorf("%s, %v", got, whole)
	}
	if got, whole := v.Header("token", "y"); got != "y" || !whole {
		t.Errorf("%s, %v", got, whole)
	}
}

// An answer reveals no hidden part of a form, an address, a header, or a body that cannot be
// parsed.
func TestAnswersThatRepeatWhatWasSent(t *testing.T) {
	r := rules(t, "$.card, token")
	nested := "%" + strings.Repeat("25", maxEscapes) + "41"
	for name, c := range map[string]struct {
		sent       Sent
		text, want string
	}{
		"a form": {Sent{ContentType: form, Body: []byte("order=4711&card=4111%2D1111")}, "4711: 4111-1111 or 4111%2D1111?",
			"4711: ••• or •••?"},
		"an address":          {Sent{URL: "https://x/?order=4711&token=ab%20cd#e"}, "4711: ab cd", "4711: •••"},
		"a query that is one": {Sent{URL: "https://x/?41111111"}, "bad 41111111", ""},
		"a header": {Sent{Headers: headers("Token", "Bearer abcdef", "Other", "ghijkl")}, "no abcdef, ghijkl",
			"no •••, ghijkl"},
		"no word of a body":    {Sent{Body: []byte("<card>4111</card>")}, "ok, done", "ok, done"},
		"a value in a word":    {Sent{Body: []byte("4111111111111111,737")}, "PAN4111111111111111x", ""},
		"a basic password":     {Sent{Headers: headers("Token", "Basic dXNlcjpzZWNyZXQ=")}, "no user secret", "no user •••"},
		"a quote":              {Sent{Body: []byte(`{"card":"41\"11"}`)}, `{"msg":"no 41\"11"}`, `{"msg":"no •••"}`},
		"a quote in text":      {Sent{Body: []byte(`{"card":"41\"11"}`)}, `no 41\"11, 41&quot;11, 41%2211`, "no •••, •••, •••"},
		"a quote in HTML":      {Sent{Body: []byte(`{"card":"41\"11"}`)}, `no 41&#34;11`, "no •••"},
		"a control character":  {Sent{Body: []byte(`{"card":"41\n11"}`)}, `no 41\n11`, "no •••"},
		"escaped twice":        {Sent{Body: []byte(`{"card":"41\n11"}`)}, `no 41\\n11`, ""},
		"in JavaScript":        {Sent{Body: []byte(`{"card":"Abcd"}`)}, `no \x41bcd`, ""},
		"a surrogate pair":     {Sent{Body: []byte(`{"card":"😀"}`)}, `no \ud83d\ude00`, ""},
		"no escapes":           {Sent{Body: []byte(`{"card":"4111"}`)}, `5% of 4%1, \u00e, 1%2`, `5% of 4%1, \u00e, 1%2`},
		"escapes of escapes":   {Sent{Body: []byte(`{"card":"4111"}`)}, "no " + nested, ""},
		"them in a name":       {Sent{Body: []byte(`{"card":"4111"}`)}, `{"` + nested + `":1}`, `{"•••":1}`},
		"spaces around":        {Sent{Body: []byte(`{"card":" 4111 11 "}`)}, "no 4111 11!", "no •••!"},
		"a common word":        {Sent{Body: []byte(`{"card":"false"}`)}, "false", "false"},
		"part of a word":       {Sent{Body: []byte("<pay>4111111111111111</pay>")}, "wrong (41111111)", ""},
		"a word of a body":     {Sent{Body: []byte("<pay>4111</pay>")}, "wrong (4111)", ""},
		"JSON, word of a body": {Sent{Body: []byte("<pay>4111</pay>")}, `{"wrong":"4111"}`, ""},
	} {
		if got, ok := r.View(c.sent).Answer(c.text); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, c.want)
		}
	}
}

// A value may be spread over the parts of an address.
func TestAddressThatRepeatsAHiddenValueIsHidden(t *testing.T) {
	body := []byte(`{"card":"4111-1111"}`)
	for address, want := range map[string]string{
		"https://shop.example/4111?1112=1":   "https://shop.example/4111?1112=1",
		"https://shop.example/4111?1111=1":   Hidden,
		"https://shop.example/x?a=4111&1111": "https://shop.example/x?•••",
	} {
		if got, whole := rules(t, "card").View(Sent{Body: body}).Address(address); got != want || whole != (want == address) {
			t.Errorf("%s: %s, %v, want %s", address, got, whole, want)
		}
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for _, bad := range []string{"$", "a..", "a.", ".", "a[", "a[x]", "a[-1]", "a[]", "a]", "$..", "a b", "['']",
		strings.Repeat("a.", 40) + "a"} {
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
// brackets would overflow the stack, which ends the process without recovery.
func TestABodyNestedMillionsDeepIsHiddenWhole(t *testing.T) {
	r := rules(t, "$..card, $..a..a..a..b")
	for _, unit := range []string{"[", `{"a":`, `[{"a":`} {
		body := []byte(strings.Repeat(unit, (16<<20)/len(unit)))
		if _, ok := r.View(Sent{Body: body}).Body(); ok {
			t.Errorf("what begins with %s again and again is shown", unit)
		}
		if _, ok := r.View(Sent{Body: body}).Answer("taken, thanks"); ok {
			t.Error("an answer to a body of that size is shown unchecked")
		}
	}
	for _, deep := range []int{maxDepth, maxDepth + 1} {
		body := strings.Repeat("[", deep) + strings.Repeat("]", deep)
		if _, ok := r.View(Sent{Body: []byte(body)}).Body(); ok != (deep == maxDepth) {
			t.Errorf("%d levels are shown: %t", deep, ok)
		}
	}
	// The memory of a level does not grow with the levels above it.
	trail := r.start
	for range maxDepth {
		if trail, _ = trail.down("a", -1); len(trail) > 5 {
			t.Fatalf("%d marks", len(trail))
		}
	}
}
