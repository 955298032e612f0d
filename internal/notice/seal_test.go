package notice

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var secrets = []Content{
	{},
	{Body: []byte("x")},
	{Body: []byte(`{"card":"4111","n":[1,{"a":"]}"}],"b":"\"}"}`)},
	{Body: []byte(`"a \" quote"`)},
	{Body: []byte(`[]`), URL: "https://u:p@shop.example/?a=1"},
	{Body: []byte("with \"quotes\" and a\nline"), URL: "https://u:p@shop.example/"},
	{Body: []byte{0xff, 0, 1}},
	{Body: []byte("x"), Headers: []Header{{Name: "X-Card", Value: "4111"}}},
	{URL: "https://u:p@shop.example/", Headers: []Header{{Name: "Authorization", Value: "Bearer x"}}},
}

func TestScannedSecretIsTheDecodedOne(t *testing.T) {
	scanned := 0
	for _, c := range secrets {
		text := c.Secret(false)
		want, err := DecodeContent(text)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := scanSecret(string(text))
		if ok {
			scanned++
		}
		if ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: scanned %+v, decoded %+v", text, got, want)
		}
		if ok && strings.Contains(string(text), `"headers"`) {
			t.Errorf("%s was scanned", text)
		}
	}
	if scanned != 4 {
		t.Errorf("%d secrets were scanned, want 4", scanned)
	}
}

// The scan agrees with encoding/json about every text that it accepts and that is valid JSON.
func FuzzScanSecret(f *testing.F) {
	for _, c := range secrets {
		f.Add(string(c.Secret(false)))
	}
	f.Add(`{"text":"a","json":1}`)
	f.Add(`{"json":{"a":"`)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := scanSecret(text)
		if !ok {
			return
		}
		if want, err := DecodeContent([]byte(text)); err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("scanned %+v, decoded %+v", got, want)
		}
	})
}

const address = "https://u:p@shop.example/paid?card=4111#4111"

// sealed returns a content as it is stored, and its secret part.
func sealed(c Content, query bool) (stored Content, secret []byte) {
	secret = c.Secret(query)
	c.Seal("s1c:x", "same", query)
	return c, secret
}

func TestSealedContentOpensAsItWas(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		url, clear, clearQuery string // as stored with and without the query sealed
	}{
		{"", "", ""},
		{"https://shop.example/paid", "https://shop.example/paid", "https://shop.example/paid"},
		{"https://shop.example/paid?card=4111", "https://shop.example/paid", "https://shop.example/paid?card=4111"},
		{"https://shop.example?", "https://shop.example", "https://shop.example?"},
		{"https://shop.example#card@4111", "https://shop.example", "https://shop.example#card@4111"},
		{"https://shop.example:8443/a%2Fb?to=x@y/?#", "https://shop.example:8443/a%2Fb", "https://shop.example:8443/a%2Fb?to=x@y/?#"},
		{address, "https://shop.example/paid", "https://shop.example/paid?card=4111#4111"},
	} {
		for _, query := range []bool{true, false} {
			c := Content{URL: x.url, Body: []byte("4111"), Headers: []Header{{"X-Card", "4111"}}}
			stored, secret := sealed(c, query)
			want := x.clearQuery
			if query {
				want = x.clear
			}
			if stored.URL != want || stored.URLSealed != (query && x.clear != x.clearQuery) || stored.Body != nil || stored.Headers != nil {
				t.Errorf("%s, query %v: stored %+v", x.url, query, stored)
			}
			opened, err := stored.Opened(secret)
			if err != nil || !reflect.DeepEqual(opened, c) {
				t.Errorf("%s, query %v: opened %+v, %v", x.url, query, opened, err)
			}
		}
	}
}

// The clear part of a notice without the query is the same with and without the setting, and so is its sealed part.
func TestContentWithoutQueryIsSealedTheSameWithBothSettings(t *testing.T) {
	t.Parallel()
	for _, c := range secrets {
		if HasQuery(c.URL) {
			continue
		}
		a, x := sealed(c, false)
		b, y := sealed(c, true)
		if !reflect.DeepEqual(a, b) || string(x) != string(y) {
			t.Errorf("%+v and %s, %+v and %s", a, x, b, y)
		}
	}
}

// A record says that the url has a sealed query, whichever way it is read.
func TestRecordSaysThatTheQueryIsSealed(t *testing.T) {
	t.Parallel()
	n := &Notice{Key: "app1:a:b:1", Made: 1763740785000, Due: time.UnixMilli(1763740800000).UTC()}
	n.Content, _ = sealed(Content{URL: address}, true)
	record := string(head(n))
	fast, ok := scan(n.Key, "", record)
	slow, err := decode(n.Key, "", record)
	if !ok || err != nil || !fast.URLSealed || !slow.URLSealed || strings.Contains(record, "4111") {
		t.Errorf("%s: %+v, %+v, %v", record, fast, slow, err)
	}
	n.Content, _ = sealed(Content{URL: address}, false)
	if record := string(head(n)); strings.Contains(record, "url_sealed") {
		t.Error(record)
	}
}

// A redirect changes the clear url only. The receiver still gets the query, and another one no credentials.
func TestRedirectKeepsTheSealedQuery(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		to, want string
		query    bool // is sealed
		headers  int
	}{
		{"https://new.example/hooks", "https://new.example/hooks?card=4111#4111", true, 1},
		{"https://shop.example/hooks", "https://shop.example/hooks?card=4111#4111", true, 2},
		{"https://new.example/hooks?card=4111#4111", "https://new.example/hooks?card=4111#4111", false, 1},
		{"", "", true, 1}, // the route has another target now
	} {
		n := &Notice{Key: "app1:a:b:1"}
		stored, secret := sealed(Content{URL: address, Headers: []Header{{"Authorization", "x"}, {"X-Card", "4111"}}}, x.query)
		n.Content = stored
		n = n.Readdress(Address{URL: x.to, Redirect: "r"})
		n.URL = x.to
		if x.query && n.Scheduled != nil && strings.Contains(n.Scheduled.URL, "4111") {
			t.Errorf("as scheduled: %+v", n.Scheduled)
		}
		opened, err := n.Opened(secret)
		if err != nil || opened.URL != x.want || len(opened.Headers) != x.headers {
			t.Errorf("%s: %+v, %v", x.to, opened, err)
		}
	}
}

// A change of the address seals the new query, and the first address of a notice from before the setting loses its query.
func TestReaddressSealsTheQuery(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		n := &Notice{Key: "app1:a:b:1", Made: 1763740785000}
		stored, secret := sealed(Content{URL: "https://old.example/?card=4111"}, before)
		n.Content = stored
		opened, err := n.Opened(secret)
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		to := func(n *Notice, a Address, opened Content) *Notice {
			t.Helper()
			x, err := n.ReaddressSealed(a, opened, func(c *Content) error {
				text = c.Secret(true)
				c.Seal("s1c:y", string(text), true)
				return nil
			})
			if err != nil || HasQuery(x.URL) || x.ShowsQuery() {
				t.Errorf("%+v, %v", x, err)
			}
			return x
		}
		x := to(n, Address{URL: "https://new.example/?card=41112"}, opened)
		if !x.URLSealed || x.URL != "https://new.example/" || x.ScheduledURL() != "https://old.example/" {
			t.Errorf("%+v", x)
		}
		opened, err = x.Opened(text)
		if err != nil || opened.URL != "https://new.example/?card=41112" || opened.ScheduledURL() != x.ScheduledURL() {
			t.Errorf("opened %+v, %v", opened, err)
		}
		x = to(x, Address{SetHeaders: true, Headers: []Header{{"X-Card", "4111"}}}, opened)
		if opened, err = x.Opened(text); err != nil || opened.URL != "https://new.example/?card=41112" || len(opened.Headers) != 1 {
			t.Errorf("opened %+v, %v", opened, err)
		}
	}
}
