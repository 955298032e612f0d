package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// spellings are the ways in which a text may repeat a value.
func spellings(value string) []string {
	quoted, _ := json.Marshal(value) // a string can be encoded
	inner := string(quoted[1 : len(quoted)-1])
	again, _ := json.Marshal(inner)
	var hexed, percent strings.Builder
	for _, b := range []byte(value) {
		percent.WriteString("%" + hex.EncodeToString([]byte{b}))
	}
	for _, c := range value {
		if c < 0x10000 {
			hexed.WriteString(`\u` + hex.EncodeToString([]byte{byte(c >> 8), byte(c)}))
		} else {
			hexed.WriteRune(c)
		}
	}
	return []string{value, inner, string(again[1 : len(again)-1]), hexed.String(), percent.String(), url.QueryEscape(value),
		url.PathEscape(value),
		html.EscapeString(value), base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
		hex.EncodeToString([]byte(value))}
}

// notices have a value at a path that is hidden, and a text elsewhere.
func notices(value, text string) []Sent {
	quote := func(s string) string {
		out, _ := json.Marshal(s) // a string can be encoded
		return string(out)
	}
	inner := `{"card":{"number":` + quote(value) + `}}`
	escaped, other := url.QueryEscape(value), url.QueryEscape(text)
	return []Sent{
		{Body: []byte(`{"card":{"number":` + quote(value) + `},"other":` + quote(text) + `}`)},
		{Body: []byte(`[{"x":{"pin":[` + quote(value) + `]}},` + quote(text) + `]`)},
		{Body: []byte(`{"card.number":` + quote(value) + `,"a":[{"b":` + quote(text) + `}]}`)},
		{Body: []byte(`{"biz":` + quote(inner) + `,"other":` + quote(text) + `}`)},
		{Body: []byte(`{"biz":` + quote(base64.StdEncoding.EncodeToString([]byte(inner))) + `}`)},
		{ContentType: form, Body: []byte("card[number]=" + escaped + "&other=" + other)},
		{ContentType: form, Body: []byte("items[].cvv=" + escaped + ";card.x=" + other)},
		{ContentType: form, Body: []byte("biz=" + url.QueryEscape(inner) + "&other=" + other)},
		{URL: "https://shop.example/pay?card.number=" + escaped + "&other=" + other},
		{URL: "https://shop.example/" + url.PathEscape(text) + "?pin=" + escaped},
		{Headers: headers("Pin", value, "Other", text)},
	}
}

// No hidden value of four or more bytes is in anything that is shown, in any spelling.
func FuzzHiddenValueIsNowhere(f *testing.F) {
	for i, value := range []string{"4111111111111111", "secret word", `a"b\c`, "päß/w?rd&x=1", "1234", "<b>&amp;", "card", "%41%42%43%44",
		`\u0041bcd`, "{}}}", "12.50", "a+b+c", "😀😀"} {
		f.Add(value, "no ", byte(i))
		f.Add(value, "", byte(i+3))
	}
	r, err := New(false, "$.card.number, items[*].cvv, $..pin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value, around string, n byte) {
		if !utf8.ValidString(value) || !utf8.ValidString(around) || !tells(value) || len(value) > 1000 {
			return
		}
		all := spellings(value)
		text := around + all[int(n)%len(all)] + around
		for _, sent := range notices(value, text) {
			for _, shown := range everything(r, sent, text) {
				for i, spelled := range all {
					if strings.Contains(shown, spelled) {
						t.Fatalf("value %q, spelling %d of\n%q\nis shown in\n%q", value, i, sent, shown)
					}
				}
			}
		}
	})
}

// everything is all that is shown of a notice and its answer.
func everything(r *Rules, sent Sent, answer string) []string {
	v := r.View(sent)
	body, _ := v.Body()
	address, _ := v.URL()
	out := []string{string(body), v.Text(answer)}
	if sent.URL != "" {
		out = append(out, address)
	}
	for _, h := range sent.Headers {
		shown, _ := v.Header(h.Name, h.Value)
		out = append(out, shown)
	}
	encoded, _ := json.Marshal(map[string]string{"msg": answer}) // strings can be encoded
	for _, text := range []string{answer, string(encoded), string(encoded[:len(encoded)-1])} {
		shown, _ := v.Answer(text)
		out = append(out, shown)
	}
	return out
}

// Masking a masked body changes nothing.
func FuzzMaskedBodyStaysMasked(f *testing.F) {
	for _, s := range []string{`{"card":"§"}`, `[{"card":"§"}]`, `{"a":{"card":["§"]}}`, "card=§", `{"card":"§"`, "§", `{"x":"§","card":1}`} {
		f.Add(s, false)
		f.Add(s, true)
	}
	r, err := New(false, "$..card")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string, isForm bool) {
		sent := Sent{Body: []byte(body)}
		if isForm {
			sent.ContentType = form
		}
		shown, ok := r.View(sent).Body()
		if !ok && shown != nil {
			t.Errorf("%q is hidden and shown", body)
		}
		sent.Body = shown
		if again, ok2 := r.View(sent).Body(); ok && !isForm && (!ok2 || string(again) != string(shown)) {
			t.Errorf("%q: masked twice: %q, %q", body, shown, again)
		}
	})
}
