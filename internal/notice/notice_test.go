package notice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFirstDueIsStoredBehindHead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"first":1763740800123`, `"first":-1`, `"url":"http://h/"`} {
		record := `{"due":1763740999000,"made":185903985000123,` + text + `,"text":"b"}`
		n, err := Decode("a:b:c:1", "a", record)
		if err != nil || string(n.AppendTail([]byte(`{"due":1763740999000,"made":185903985000123`))) != record {
			t.Errorf("%s: %+v, %v", record, n, err)
		}
	}
}

func TestSameDue(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 28, 10, 0, 0, 123_456_000, time.UTC)
	now := made.Truncate(time.Millisecond)
	n := &Notice{Made: MadeAt(made), Due: now}
	for due, want := range map[time.Time]bool{now: true, now.Add(-time.Hour): true, now.Add(time.Millisecond): false} {
		if n.SameDue(due) != want {
			t.Errorf("due at once, and %s is the same: %t", due, !want)
		}
	}
	first := now.Add(time.Hour)
	n = &Notice{Made: MadeAt(made), Due: now.Add(9 * time.Hour), FirstDue: first.UnixMilli()}
	for due, want := range map[time.Time]bool{first: true, n.Due: false, first.Add(time.Millisecond): false, now.Add(-time.Hour): false} {
		if n.SameDue(due) != want {
			t.Errorf("due in an hour, and %s is the same: %t", due, !want)
		}
	}
	if n.FirstDue = UnknownDue; !n.SameDue(now) {
		t.Error("an unknown due time differs")
	}
}

func TestParseLadder(t *testing.T) {
	for _, c := range []struct {
		l    Ladder
		want string
	}{
		{DefaultLadder, "9 retries over 25h13m15s"}, {AlipayLadder, "7 retries over 24h24m"},
		{WeChatLadder, "15 retries over 24h4m"}, {StandardLadder, "9 retries over 75h35m5s"},
		{Ladder{}, "no retry"}, {Ladder{time.Hour}, "1 retry over 1h"},
	} {
		if got := c.l.Summary(); got != c.want {
			t.Errorf("%s: %q, want %q", c.l, got, c.want)
		}
		back, err := ParseLadder(c.l.String())
		if err != nil || !reflect.DeepEqual(back, c.l) {
			t.Errorf("%s reads back as %v, %v", c.l, back, err)
		}
	}
	for _, bad := range []string{"", ",", "15", "15s,0s", "15s,-3m", "15s,later", strings.Repeat("1s,", 101), "200000h"} {
		if l, err := ParseLadder(bad); err == nil && bad != "15" {
			t.Errorf("%q was read as %v", bad, l)
		}
	}
}

func TestStepFollowsTheLadder(t *testing.T) {
	n := &Notice{}
	if d, ok := n.Step(Ladder{time.Second}); !ok || d != time.Second {
		t.Errorf("first step %v, %v", d, ok)
	}
	n.Add(Attempt{Number: 1})
	if _, ok := n.Step(Ladder{time.Second}); ok {
		t.Error("a used ladder gave a step")
	}
	n.Redriven = 1
	if d, ok := n.Step(Ladder{time.Second}); !ok || d != time.Second {
		t.Errorf("after a redrive %v, %v", d, ok)
	}
	n.Ladder = Ladder{}
	if _, ok := n.Step(Ladder{time.Second}); ok {
		t.Error("the notice's own ladder was not taken")
	}
}

func head(n *Notice) []byte {
	return n.AppendTail([]byte(`{"due":1763740800000,"made":1763740785000`))
}

func TestRecordRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &Notice{Key: "a:b:c:d", Route: "a", Made: 1763740785000, Due: time.UnixMilli(1763740800000).UTC()}
		n.URL = rapid.String().Draw(t, "url")
		n.Audience = rapid.SampledFrom([]string{"", "m17", "shop.example~-_"}).Draw(t, "audience")
		n.Tracestate = rapid.SampledFrom([]string{"", "a=1", `a=1,b="\`}).Draw(t, "tracestate")
		n.ContentType = rapid.SampledFrom([]string{"", "text/plain", "application/json"}).Draw(t, "type")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			n.Body = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		case 1:
			n.Body = []byte(rapid.String().Draw(t, "text"))
		case 2:
			n.Body = []byte(rapid.SampledFrom([]string{`{"a": 1 ,"b":"ä\u0000"}`, "1", ` {"a":1}`, "{}\n", `"x"`, "null", "1e999", "{\n}"}).Draw(t,
				"json"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			n.Headers = append(n.Headers, Header{rapid.StringMatching("[a-z]+").Draw(t, "name"), rapid.String().Draw(t, "value")})
		}
		n.Client = rapid.SampledFrom([]int{0, 0, 1, 65535}).Draw(t, "client")
		n.Locked = rapid.IntRange(0, 3).Draw(t, "locked")
		if rapid.Bool().Draw(t, "was held") {
			n.Waits.Until = time.UnixMilli(rapid.Int64Range(1, 1<<42).Draw(t, "until")).UTC()
			for i := range n.Waits.For {
				n.Waits.For[i] = time.Duration(rapid.Int64Range(0, 1<<20).Draw(t, "ms")) * time.Millisecond
			}
		}
		n.Ladder = rapid.SampledFrom([]Ladder{nil, {}, {time.Second}}).Draw(t, "ladder")
		n.Reason = rapid.SampledFrom(append([]Reason{""}, Reasons...)).Draw(t, "reason")
		for i := range rapid.IntRange(0, 22).Draw(t, "attempts") {
			n.Add(Attempt{Number: i + 1, At: time.UnixMilli(1763740800000 + int64(i)).UTC(), Duration: time.Duration(i) * 700 * time.Microsecond,
				Status: 500, Reason: ReasonStatus5xx, Response: rapid.StringN(0, 100, 400).Draw(t, "response")})
		}
		data := head(n)
		if !json.Valid(data) {
			t.Fatalf("not JSON: %s", data)
		}
		if fast, ok := scan(n.Key, n.Route, string(data)); ok {
			if again := string(head(fast)); again != string(data) {
				t.Fatalf("read from %s, written as %s", data, again)
			}
			slow, err := decode(n.Key, n.Route, string(data))
			if fast.kept = ""; err != nil || !reflect.DeepEqual(fast, slow) {
				t.Fatalf("two ways to read %s:\n%+v\n%+v, %v", data, fast, slow, err)
			}
		}
		got, err := Decode(n.Key, n.Route, string(data))
		if err != nil {
			t.Fatal(err)
		}
		if typ := n.Content.EffectiveType(); got.EffectiveType() != typ {
			t.Fatalf("%s is sent as %q, read again as %q", data, typ, got.EffectiveType())
		}
		got.kept, got.inline = "", false
		if len(n.Body) == 0 {
			n.Body, got.Body = nil, nil
		}
		if !bytes.Equal(got.Body, n.Body) || !reflect.DeepEqual(got, n) {
			t.Fatalf("\n got %+v\nwant %+v\nfrom %s", got, n, data)
		}
	})
}

func TestRecordIsShortAndReadable(t *testing.T) {
	n := &Notice{Content: Content{Body: []byte(`{"order":"` + strings.Repeat("x", 188) + `"}`)}}
	if got := len(head(n)); got > 252 {
		t.Errorf("a record with a 200 B body has %d bytes, over the 252 of its allocation class", got)
	}
	n = &Notice{Content: Content{URL: "https://m/x", Body: []byte(`{"paid": true}`)}}
	n.Add(Attempt{Number: 1, At: time.UnixMilli(1763740800001), Duration: 12*time.Millisecond + 345*time.Microsecond, Status: 500,
		Reason: ReasonStatus5xx, Response: "oh \"no\"\n"})
	want := `{"due":1763740800000,"made":1763740785000,"url":"https://m/x","json":{"paid": true},"n":1,` +
		`"attempts":[{"n":1,"at":1763740800001,"ms":12,"us":345,"status":500,"reason":"status_5xx","response":"oh \"no\"\n"}]}`
	if got := string(head(n)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRedriveRestartsTheLadder(t *testing.T) {
	got, err := Decode("a:b:c:d", "a", `{"due":1,"made":1,"n":3,"reason":"status_5xx","again":true}`)
	if err != nil || got.Redriven != 3 || got.Reason != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestKeptCutsAtRuneBoundary(t *testing.T) {
	for _, pad := range []int{0, 1, 2, 3} {
		s := Kept(strings.Repeat("x", pad) + strings.Repeat("界", 300))
		if len(s) > KeptResponse || len(s) < KeptResponse-3 || strings.ContainsRune(s, '\ufffd') {
			t.Errorf("%d bytes, %q", len(s), s[len(s)-5:])
		}
	}
}

func TestContentCheck(t *testing.T) {
	good := Content{URL: "https://m.example/cb?x=1", Audience: strings.Repeat("m", 128), ContentType: "application/xml; charset=utf-8",
		Headers:     []Header{{"X-A", "b"}},
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Tracestate:  "a=1,b=" + strings.Repeat("x", 250), Ladder: Ladder{time.Second}, Method: "PUT"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Content){
		"url":         func(c *Content) { c.URL = "ftp://x/" },
		"absolute":    func(c *Content) { c.URL = "/x" },
		"host":        func(c *Content) { c.URL = "http:///x" },
		"method":      func(c *Content) { c.Method = "DELETE" },
		"reserved":    func(c *Content) { c.Headers = []Header{{"Webhook-Id", "1"}} },
		"X-A":         func(c *Content) { c.Headers = []Header{{"X-A", "b\r\nX: y"}} },
		"header name": func(c *Content) { c.Headers = []Header{{"X A", "b"}} },
		"traceparent": func(c *Content) { c.Traceparent = "00-x" },
		"tracestate":  func(c *Content) { c.Tracestate = strings.Repeat("a=1,", 65) },
		"printable":   func(c *Content) { c.Tracestate = "a=\n" },
		"needs a":     func(c *Content) { c.Traceparent, c.Tracestate = "", "a=1" },
		"audience":    func(c *Content) { c.Audience = "m 17" },
		"128 letters": func(c *Content) { c.Audience = strings.Repeat("m", 129) },
		"step 1":      func(c *Content) { c.Ladder = Ladder{0} },
		"16777217 by": func(c *Content) { c.Body = make([]byte, MaxBody+1) },
		"content_typ": func(c *Content) { c.ContentType = "a\nb" },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIDIsStableAndHasNoDot(t *testing.T) {
	n := &Notice{Key: "a.b:c:d:e.f", Made: 1}
	id := n.ID()
	n.Add(Attempt{Number: 1})
	if n.ID() != id || strings.Contains(id, ".") || len(id) != 30 {
		t.Errorf("%q, then %q", id, n.ID())
	}
	n.Made = 2
	if n.ID() == id {
		t.Error("another notice under the same key has the same id")
	}
}

func TestMadeRoundTripsTime(t *testing.T) {
	at := time.Date(2026, 11, 22, 3, 4, 5, 678_901_000, time.UTC)
	if got := MadeAt(at).Time(); !got.Equal(at) {
		t.Errorf("%s, want %s", got, at)
	}
}

func TestRecordOf200ByteBodyFitsItsAllocationClass(t *testing.T) {
	n := &Notice{Content: Content{Body: []byte(`"` + strings.Repeat("x", 198) + `"`)}}
	head := fmt.Sprintf(`{"due":%d,"made":%d`, 1763740800000, MadeAt(time.Date(2050, 12, 31, 0, 0, 0, 0, time.UTC)))
	if size := len(n.AppendTail([]byte(head))); size > 252 {
		t.Errorf("%d bytes, at most 252 fit", size)
	}
}

func TestRedriveDecodesUnreadableRecordAgain(t *testing.T) {
	inner := `{"due":1763740800000,"made":185903985000123,"json":{"paid":true},"n":1}`
	for _, x := range []struct {
		raw    string
		reads  bool
		reason Reason
	}{{inner, true, ""}, {"garbage \xff", false, ReasonUnreadable}, {"", false, ReasonMissing}, {"null", false, ReasonUnreadable}} {
		n := Unread("a:b:c:d", "a", x.raw)
		n.Add(Attempt{Number: 1, Reason: n.Reason})
		record := string(n.AppendTail([]byte(`{"due":1763740900000,"made":185903985000123`)))
		dead, err := Decode(n.Key, n.Route, record)
		if err != nil || dead.Raw == nil || string(dead.Raw) != x.raw || len(dead.Attempts) != 1 || len(dead.Body) > 0 {
			t.Fatalf("%q: %+v, %v", x.raw, dead, err)
		}
		again, err := Decode(n.Key, n.Route, record[:len(record)-1]+`,"again":true}`)
		if err != nil || (again.Raw == nil) != x.reads || again.Unreadable() != x.reason {
			t.Fatalf("%q, redriven: %+v, %v", x.raw, again, err)
		}
		if x.reads && (string(again.Body) != `{"paid":true}` || again.AttemptsMade != 1 || again.Redriven != 1 ||
			again.Due.UnixMilli() != 1763740900000) {
			t.Errorf("%+v", again)
		}
	}
}

func TestDeepBodyIsStoredAsText(t *testing.T) {
	for _, deep := range []int{999, 1000, 1001, 9999, 10000} {
		body := strings.Repeat("[", deep) + strings.Repeat("]", deep)
		n := Notice{Content: Content{Body: []byte(body)}}
		back, err := Decode("a:b:c:d", "a", string(append([]byte(`{"due":1,"made":1`), n.AppendTail(nil)...)))
		if err != nil || string(back.Body) != body {
			t.Errorf("a body %d levels deep does not read back: %v", deep, err)
		}
		if n.InlineJSON() != (deep <= 1000) {
			t.Errorf("%d levels: InlineJSON = %v", deep, n.InlineJSON())
		}
	}
	if d := depth([]byte(`{"a[[[":["\\\"[[",{}]}`)); d != 3 {
		t.Errorf("depth = %d, want 3", d)
	}
}

func TestCommonRecordsTakeTheFastPath(t *testing.T) {
	n := &Notice{Content: Content{URL: "https://m.example/cb", Audience: "m17", ContentType: "application/json",
		Body: []byte(`{"a":[1,{"b":"},\\"}],"c":"d"}`)}}
	for _, n.Client = range []int{0, 7} {
		if _, ok := scan("a:b:c:d", "a", string(head(n))); !ok {
			t.Errorf("not read: %s", head(n))
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	n := &Notice{Content: Content{URL: "https://m.example/cb", Body: []byte(`{"order":"` + strings.Repeat("x", 188) + `"}`)}}
	text := string(head(n))
	for name, read := range map[string]func(string, string, string) (*Notice, error){"scan": Decode, "json": decode} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := read("a:b:c:d", "a", text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendTail(b *testing.B) {
	n := &Notice{Content: Content{URL: "https://m.example/cb", Body: []byte(`{"order":"` + strings.Repeat("x", 188) + `"}`)}}
	var buf []byte
	b.ReportAllocs()
	for range b.N {
		buf = n.AppendTail(buf[:0])
	}
}
