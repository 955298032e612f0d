package search

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	t.Parallel()
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	const id = "msg_0123456789abcdef0123456789"
	span := func(q Query, since, until string) Query {
		if since != "" {
			q.Since, _ = time.Parse(time.RFC3339, since)
			q.Since = q.Since.UTC()
		}
		if until != "" {
			q.Until, _ = time.Parse(time.RFC3339, until)
		}
		return q
	}
	for box, want := range map[string]Query{
		"":                                {},
		"4711":                            {Number: "4711"},
		" 2026112100001 ":                 {Number: "2026112100001"},
		"O-17~2":                          {Number: "O-17~2"},
		"app1:orders:paid:4711":           {Key: "app1:orders:paid:4711"},
		"app1:orders:":                    {Begins: "app1:orders:"},
		"app1:orders:paid":                {Begins: "app1:orders:paid"},
		"part=711":                        {Part: "711"},
		"id=yesterday":                    {Number: "yesterday"},
		id:                                {ID: id},
		strings.ToUpper(id):               {ID: id},
		"shop.example":                    {Host: "shop.example"},
		"Shop.Example:8443":               {Host: "shop.example"},
		"https://shop.example/x":          {Host: "shop.example"},
		"10.1.2.3":                        {Host: "10.1.2.3"},
		"host=localhost":                  {Host: "localhost"},
		"card declined":                   {Text: "card declined"},
		`"4711" shop.example`:             {Text: "4711", Host: "shop.example"},
		"“dead”":                          {Text: "dead"},
		"余额不足":                            {Text: "余额不足"},
		"dead":                            {State: "dead"},
		"Failed":                          {State: "dead"},
		"失败":                              {State: "dead"},
		"reason=timeout dead":             {State: "dead", Reason: "timeout"},
		"route=orders delivered":          {State: "delivered", Route: "orders"},
		"-30d":                            span(Query{}, "2026-10-25T12:00:00Z", "2026-11-24T12:00:00Z"),
		"7d":                              span(Query{}, "2026-11-17T12:00:00Z", "2026-11-24T12:00:00Z"),
		"failed yesterday 10–11":          span(Query{State: "dead"}, "2026-11-23T02:00:00Z", "2026-11-23T03:00:00Z"),
		"failed Yesterday 10-11":          span(Query{State: "dead"}, "2026-11-23T02:00:00Z", "2026-11-23T03:00:00Z"),
		"失败 昨天 10–11":                     span(Query{State: "dead"}, "2026-11-23T02:00:00Z", "2026-11-23T03:00:00Z"),
		"yesterday 10 – 11 4711":          span(Query{Number: "4711"}, "2026-11-23T02:00:00Z", "2026-11-23T03:00:00Z"),
		"declined 7d":                     span(Query{Text: "declined"}, "2026-11-17T12:00:00Z", "2026-11-24T12:00:00Z"),
		"2026-11-22 09:30-10 a.b.example": span(Query{Host: "a.b.example"}, "2026-11-22T01:30:00Z", "2026-11-22T02:00:00Z"),
		"scheduled until=now":             span(Query{State: "scheduled"}, "", "2026-11-24T12:00:00Z"),
		"since=-1h until=+1h":             span(Query{}, "2026-11-24T11:00:00Z", "2026-11-24T13:00:00Z"),
		`since="yesterday 10:00" 4711`:    span(Query{Number: "4711"}, "2026-11-23T02:00:00Z", ""),
		`text="a=b c" 1d`:                 span(Query{Text: "a=b c"}, "2026-11-23T12:00:00Z", "2026-11-24T12:00:00Z"),
		"id=" + id:                        {ID: id},
		"2026-11-22T09:00:00Z/2026-11-22T10:00:00Z": span(Query{}, "2026-11-22T09:00:00Z", "2026-11-22T10:00:00Z"),
	} {
		got, err := Parse(box, noon.In(shanghai))
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", box, got, err, want)
		}
	}
}

func TestParseSaysWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for box, want := range map[string]string{
		"4711 4712":               "a second word of its kind",
		"7d yesterday":            "second time range",
		"msg_12":                  "msg_ and 26 hexadecimal digits",
		`"card`:                   "between two quotation marks",
		"a.example b.example":     "a second word of its kind",
		"app1:orders: 4711":       "no other key",
		"reason=nonsense":         "want a reason",
		"state=gone":              "want scheduled",
		"host=":                   "want a host",
		"7d since=-1h":            "second time range",
		"since=-1h 7d":            "second time range",
		"since=-1h since=-2h":     "second word of its kind",
		"since=now until=-1h":     "ends before it starts",
		"since=25:00":             "is not a time",
		`route="a`:                "between two quotation marks",
		"route=":                  "want a value",
		"reason=timeout claimed":  "only dead letters have a reason",
		"\xff":                    "not UTF-8",
		strings.Repeat("a ", 300): "more than 500",
	} {
		if got, err := Parse(box, noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v; want an error with %q", box, got, err, want)
		}
	}
}

// The words are parts of the line, in its order, so that a line without one of them is the rest of the search.
func TestReadReturnsWords(t *testing.T) {
	t.Parallel()
	const box = `failed  yesterday 10 – 11 “a b” host="shop.example" since=1 4711`
	_, words, err := Read(strings.Replace(box, " since=1", "", 1), noon)
	want := []Word{{KindState, "failed"}, {KindTime, "yesterday 10 – 11"}, {KindText, "“a b”"}, {KindHost, `host="shop.example"`}, {KindNumber, "4711"}}
	if err != nil || !slices.Equal(words, want) {
		t.Errorf("%v, %v", words, err)
	}
	if _, words, err = Read(box, noon); err == nil || !slices.Equal(words, want[:4]) {
		t.Errorf("before the fault: %v, %v", words, err)
	}
}

// A time that the clocks of the zone skip or show twice is an error, and not a part of a key.
func TestParseRefusesSkippedTimes(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for box, want := range map[string]string{"4711 2026-10-25 02:30": "is twice", "since=2026-03-29T02:30": "clocks were set forward"} {
		if got, err := Parse(box, noon.In(berlin)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v", box, got, err)
		}
	}
}

// FuzzParse checks that no line is read as something that the searches do not take.
func FuzzParse(f *testing.F) {
	for _, box := range []string{"4711", "failed yesterday 10–11", `"a b" c`, "host=[::1]", "app1:a:b:c", "-30d", "2026-11-22T09:00:00Z/2026-11-22T10:00:00Z",
		"https://x.example:1/", "reason=timeout", "“", "昨天 10-11", "20-1", "::1", `since=-1h until="2026-11-24 09:00"`, `text="a b"c`} {
		f.Add(box)
	}
	f.Fuzz(func(t *testing.T, box string) {
		q, words, err := Read(box, noon)
		if err != nil {
			if f := (*Fault)(nil); errors.As(err, &f) && !slices.Contains(Wants, f.Want) {
				t.Fatalf("%q: %v is not in Wants", box, err)
			}
			return
		}
		texts := make([]string, len(words))
		for i, w := range words {
			if texts[i] = w.Text; !strings.Contains(strings.Join(strings.Fields(box), " "), strings.Join(strings.Fields(w.Text), " ")) {
				t.Fatalf("%q does not have the word %q", box, w.Text)
			}
		}
		if again, err := Parse(strings.Join(texts, " "), noon); err != nil || again != q {
			t.Fatalf("%q is %+v, and its words %q are %+v, %v", box, q, texts, again, err)
		}
		if q.Key != "" && !keys.Valid(q.Key) || strings.Trim(q.Begins+q.Number+q.Part, keyText) != "" || len(q.Text) > maxText {
			t.Fatalf("%q is %+v", box, q)
		}
		if !q.Until.IsZero() && !q.Since.Before(q.Until) {
			t.Fatalf("%q is %+v", box, q)
		}
	})
}

func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"=1+1", "+1", "-1", "@x", "\tx", "\r=x", " =1", "\n=1", "＝1", "\ufeff=1"} {
		if got := safeCell(s); !strings.HasPrefix(got, "'") {
			t.Errorf("%q stays %q", s, got)
		}
	}
	for _, s := range []string{"", "a=1", "4711", "{\"a\":-1}", "…", "a\nb"} {
		if got := safeCell(s); got != s {
			t.Errorf("%q is %q", s, got)
		}
	}
	if got := safeCell("a\r\nb\u202e\x1b[2J"); got != "a\nb\ufffd\ufffd[2J" {
		t.Errorf("%q", got)
	}
	if got := safeCell(strings.Repeat("é", 40_000)); len(got) > mostCell+3 {
		t.Errorf("a cell has %d bytes", len(got))
	}
}
