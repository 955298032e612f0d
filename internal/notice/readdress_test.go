package notice

import (
	"reflect"
	"testing"
	"time"
)

func TestReaddressRemembersTheScheduledContent(t *testing.T) {
	t.Parallel()
	asked := Content{URL: "https://old.example/a?b=c", Body: []byte(`{"a":1}`),
		Headers: []Header{{"x-a", "1"}, {"AUTHORIZATION", "x"}, {"cookie", "y"},
			{"Proxy_Any", "z"}}}
	n := &Notice{Key: "app1:a:b:1", Made: 1763740785000, Due: time.UnixMilli(1763740800000).UTC(), Content: asked}
	n.Add(Attempt{Number: 1, At: time.UnixMilli(1763740000000).UTC(), Reason: ReasonTimeout})
	read := func(n *Notice) *Notice {
		t.Helper()
		again, err := Decode(n.Key, n.Route, string(head(n)))
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	x := read(n.Readdress(Address{URL: "https://new.example/b", Redirect: "r1"}))
	if x.URL != "https://new.example/b" || !reflect.DeepEqual(x.Headers, asked.Headers[:1]) || x.Redirect != "r1" ||
		x.ScheduledURL() != asked.URL ||
		x.ID() != n.ID() || x.AttemptsMade != 1 || len(x.Attempts) != 1 || !x.Due.Equal(n.Due) {
		t.Errorf("%+v", x)
	}
	if d := asked.Diff(&x.Content); len(d) > 0 || !x.Tombstone().Same(&asked) {
		t.Errorf("the schedule call differs in %v", d)
	}
	other := asked
	other.Headers = nil
	if d := other.Diff(&x.Content); !reflect.DeepEqual(d, []string{"headers"}) || x.Tombstone().Same(&other) {
		t.Errorf("a call without the headers differs in %v", d)
	}
	other = asked
	other.URL = x.URL
	if d := other.Diff(&x.Content); !reflect.DeepEqual(d, []string{"url"}) {
		t.Errorf("a call with the new url differs in %v", d)
	}

	y := read(x.Readdress(Address{URL: "https://third.example/"}))
	if y.ScheduledURL() != asked.URL || y.Redirect != "r1" || len(asked.Diff(&y.Content)) > 0 {
		t.Errorf("changed twice: %+v", y)
	}
	back := read(y.Readdress(Address{URL: asked.URL, Headers: asked.Headers, SetHeaders: true}))
	if back.Scheduled != nil || len(asked.Diff(&back.Content)) > 0 {
		t.Errorf("as scheduled again: %+v", back)
	}
}

// The text of a record that the fast path has read is not written again after a change.
func TestReaddressDropsTheKeptText(t *testing.T) {
	t.Parallel()
	n, ok := scan("app1:a:b:1", "app1:a", `{"due":1763740800000,"made":185903985000123,"url":"https://old.example/","json":1}`)
	if !ok || n.kept == "" {
		t.Fatal("not read by the fast path")
	}
	x, err := Decode(n.Key, n.Route, string(head(n.Readdress(Address{URL: "https://new.example/"}))))
	if err != nil || x.URL != "https://new.example/" || x.ScheduledURL() != "https://old.example/" {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestCredentialsStayWithTheReceiver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		same     bool
	}{
		{"https://a.example/x", "https://A.example./y?z", true},
		{"https://a.example/", "https://a.example:443/", true},
		{"http://a.example/", "https://a.example/", true},
		{"https://a.example/", "http://a.example/", false},
		{"https://a.example/", "https://a.example:8443/", false},
		{"https://a.example/", "https://b.example/", false},
		{"http://a.example:8080/", "http://a.example:8080/z", true},
		{"https://u:p@a.example/", "https://a.example/", true},
		{"https://a.example.b.example/", "https://a.example/", false},
	} {
		if got := SameReceiver(c.from, c.to); got != c.same {
			t.Errorf("%s to %s: %v", c.from, c.to, got)
		}
	}
}

func TestPublicAddressHidesSecrets(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://u:p@a.example:81/x%2Fy?token=1#f": "https://a.example:81/x%2Fy",
		"http://[::1]/": "http://[::1]/",
		"":              "",
		"mailto:a@b":    "",
	} {
		if got := PublicAddress(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
