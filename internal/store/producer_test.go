package store

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

//go:generate go test -count 1 -run TestProducersScriptIsGenerated . -update

var update = flag.Bool("update", false, "write deploy/schedule.lua")

// scriptLine is the line of lua/producer.lua whose place the code of schedule.lua takes.
const scriptLine = "-- SCRIPT schedule"

// deploy/schedule.lua is lua/producer.lua with the parts and the script that it names, without comments and blank lines.
func TestProducersScriptIsGenerated(t *testing.T) {
	t.Parallel()
	const path = "../../deploy/schedule.lua"
	text, err := os.ReadFile("lua/producer.lua")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	add := func(code string) {
		for line := range strings.Lines(code) {
			if !strings.HasPrefix(strings.TrimSpace(line), "--") && line != "\n" {
				b.WriteString(line)
			}
		}
	}
	b.WriteString("-- Code generated from internal/store/lua/producer.lua; DO NOT EDIT.\n--\n")
	var names []string // in lines PARTS that follow each other, whose place the parts take
	for line := range strings.Lines(strings.ReplaceAll(string(text), "<layout>", strconv.Itoa(Version))) {
		if list, ok := strings.CutPrefix(line, parts); ok {
			names = append(names, strings.Fields(list)...)
			continue
		}
		add(joined(names))
		names = nil
		if strings.TrimSpace(line) == scriptLine {
			add(scheduleSource)
		} else {
			b.WriteString(line)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from lua/producer.lua with its parts: run go generate ./internal/store (%v)", path, err)
	}
}

// producer runs deploy/schedule.lua as a producer would.
type producer struct {
	*redis.Script
	keys func(key string) []string
}

func newProducer(t *testing.T, s *Store) producer {
	t.Helper()
	src, err := os.ReadFile("../../deploy/schedule.lua")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Known(t.Context()); err != nil {
		t.Fatal(err)
	}
	return producer{redis.NewScript(string(src)), func(key string) []string { return append(s.space.States(partition), key) }}
}

var births = regexp.MustCompile(`^\{"due":(\d+),"made":(\d+)`)

// dump is all of a database, byte for byte, but for the moment of the writing:
// times stand relative to the notice's birth.
func dump(t *testing.T, c *redis.Client, namespace string) map[string]string {
	t.Helper()
	ctx := t.Context()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(keys)
	out := map[string]string{}
	made := map[string]int64{}
	for _, k := range keys {
		if !strings.Contains(k, ":records:") {
			continue
		}
		for field, record := range c.HGetAll(ctx, k).Val() {
			m := births.FindStringSubmatch(record)
			if m == nil {
				t.Fatalf("no head: %s", record)
			}
			due, _ := strconv.ParseInt(m[1], 10, 64)
			birth, _ := strconv.ParseInt(m[2], 10, 64)
			at := notice.Made(birth).Time()
			if made[field] = at.UnixMilli(); due > made[field] { // a delay counts from the next whole ms
				made[field] = at.Add(time.Millisecond - 1).UnixMilli()
			}
			out["record "+field] = strconv.FormatInt(due-made[field], 10) + record[len(m[0]):]
		}
	}
	for _, k := range keys {
		short := strings.TrimPrefix(k, namespace)
		switch kind := c.Type(ctx, k).Val(); {
		case strings.Contains(k, ":records:"):
		case k == namespace+":meta" || k == namespace+":routes" || k == namespace+":{0}:layout" || k == namespace+":{0}:routes":
		case kind == "zset":
			for _, z := range c.ZRangeWithScores(ctx, k, 0, -1).Val() {
				member, _ := z.Member.(string)
				out[short+" "+member] = strconv.FormatFloat(z.Score-float64(made[member]), 'f', -1, 64)
			}
		case kind == "string":
			out[k] = fmt.Sprintf("%q %d", c.Get(ctx, k).Val(), c.PExpireTime(ctx, k).Val().Milliseconds()-made[k])
		default:
			t.Fatalf("%s is a %s", k, kind)
		}
	}
	return out
}

// The script in deploy/ writes the same data as a call of the API.
func TestTheProducersScriptWritesWhatTheStoreWrites(t *testing.T) {
	t.Parallel()
	mine, theirs := testkit.SharedRedis(t), testkit.SharedRedis(t)
	a, b := on(t, mine.URL(), mine.Namespace()), on(t, theirs.URL(), theirs.Namespace())
	p := newProducer(t, b)
	ctx := t.Context()
	far := time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)
	bodies := append(corpus(), randomBodies(400)...)
	for i, body := range bodies {
		if i%100 == 0 {
			mine.Client().FlushDB(ctx)
			theirs.Client().FlushDB(ctx)
			if err := b.Layout.Known(ctx); err != nil {
				t.Fatal(err)
			}
		}
		key := fmt.Sprintf("app1:a.b~c:d_e:%d", i)
		r := Request{Key: key, Content: notice.Content{Body: []byte(body)}}
		when := "+0"
		switch i % 3 {
		case 1:
			r.Delay, when = 90*time.Minute, "+5400000"
		case 2:
			r.Due, when = far, "="+strconv.FormatInt(far.UnixMilli(), 10)
		}
		args := []any{key, when, "reject", body}
		if i%4 == 0 {
			r.ContentType, r.URL = "application/x-thing; q=\"1\"", "https://merchant.example/a?b=\"ü\\"
			args = append(args, r.ContentType, r.URL)
			if i%8 == 0 {
				r.Audience = "shop.17~_-"
				args = append(args, r.Audience)
			}
		}
		a.put(t, r)
		due, err := p.Run(ctx, theirs.Client(), p.keys(key), args...).Int64()
		if err != nil || due == 0 {
			t.Fatalf("%q: %d, %v", body, due, err)
		}
		if i%3 == 2 && due != far.UnixMilli() {
			t.Errorf("due %d, want %d", due, far.UnixMilli())
		}
		if i%100 == 99 || i == len(bodies)-1 {
			compare(t, dump(t, mine.Client(), mine.Namespace()), dump(t, theirs.Client(), theirs.Namespace()))
		}
	}
}

// compare forgives notices with an absolute due time the time between the two
// writings.
func compare(t *testing.T, a, b map[string]string) {
	t.Helper()
	loose := func(m map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			if i, err := strconv.Atoi(k[strings.LastIndexByte(k, ':')+1:]); err == nil && i%3 == 2 {
				v = regexp.MustCompile(`^\d+|\d+$`).ReplaceAllString(v, "")
			}
			out[k] = v
		}
		return out
	}
	if d := diff(loose(a), loose(b)); d != "" {
		t.Errorf("store - + producer:\n%s", d)
	}
}

func TestTheProducersScriptOnADuplicate(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	p := newProducer(t, s)
	ctx, c := t.Context(), srv.Client()
	const key = "app1:a:b:1"
	run := func(when, mode, body string) int64 {
		t.Helper()
		due, err := p.Run(ctx, c, p.keys(key), key, when, mode, body).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return due
	}
	run("+3600000", "reject", "one")
	before := dump(t, c, srv.Namespace())
	for _, mode := range []string{"reject", "keep"} {
		if got := run("+1000", mode, "two"); got != 0 {
			t.Errorf("%s: %d, want 0", mode, got)
		}
	}
	if d := diff(before, dump(t, c, srv.Namespace())); d != "" {
		t.Errorf("something was written:\n%s", d)
	}
	first, _ := s.Find(ctx, prefix, key)
	// Over one that is claimed, and over one that is settled.
	if _, err := s.Amend(ctx, prefix, key, Fire, When{}); err != nil {
		t.Fatal(err)
	}
	claim := s.take(t, key, "t")
	run("+3600000", "replace", "two")
	if f, err := s.Find(ctx, prefix, key); err != nil || f.State != notice.Scheduled || string(f.Body) != "two" || f.Made <= first.Made {
		t.Errorf("%+v, %v", f, err)
	}
	if got := s.end(t, Settlement{Claim: claim, Ending: EndDelivered}); !got.Stale {
		t.Error("the old claim still counts")
	}
	if _, err := s.Amend(ctx, prefix, key, Cancel, When{}); err != nil {
		t.Fatal(err)
	}
	run("+0", "replace", "three")
	if got := s.state(t, key); got != notice.Scheduled {
		t.Errorf("%s", got)
	}
	if n := c.Exists(ctx, key).Val(); n != 0 {
		t.Error("a notice that is due now has a timer")
	}
}

// The script stores an address as given. It gets its canonical form when the record is read.
func TestProducersURLIsCanonicalWhenClaimed(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	p := newProducer(t, s)
	ctx := t.Context()
	const key, given = "app1:a:b:1", "https://h.example/a%2Fb|c?n=张三&p=100%"
	const canonical = "https://h.example/a%2Fb%7Cc?n=%E5%BC%A0%E4%B8%89&p=100%25"
	if err := p.Run(ctx, srv.Client(), p.keys(key), key, "+0", "reject", "x", "", given).Err(); err != nil {
		t.Fatal(err)
	}
	repeat := func() {
		t.Helper()
		for _, url := range []string{given, canonical} {
			r := Request{Key: key, Content: notice.Content{URL: url, Body: []byte("x")}}
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
			if got := s.put(t, r); got.Created || len(got.Differs) > 0 || got.URL != canonical {
				t.Errorf("a repeat with %s: %+v, differs in %v", url, got.Notice, got.Differs)
			}
		}
	}
	repeat()
	claim := s.take(t, key, "t")
	if claim.URL != canonical {
		t.Errorf("claimed with %s", claim.URL)
	}
	s.end(t, Settlement{Claim: claim, Ending: EndDelivered})
	repeat()
	if record := srv.Client().HGet(ctx, s.space.States(partition)[1], key).Val(); !strings.Contains(record, canonical) {
		t.Errorf("settled as %s", record)
	}
}

func TestTheProducersScriptTellsTheServiceAndRunsInATransaction(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	p := newProducer(t, s)
	ctx, c := t.Context(), srv.Client()
	sub := c.Subscribe(ctx, s.space.Wake())
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Load(ctx, c).Err(); err != nil {
		t.Fatal(err)
	}
	const key = "app1:a:b:1"
	if _, err := c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Set(ctx, "shop:order:1", "unpaid", 0)
		p.EvalSha(ctx, tx, p.keys(key), key, "+60000", "reject", "x")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	m, err := sub.ReceiveMessage(wctx)
	f, ferr := s.Find(ctx, prefix, key)
	if err != nil || ferr != nil || m.Payload != fmt.Sprintf("%d 0 %s", f.Due.UnixMilli(), prefix) {
		t.Errorf("%v, %v, %v", m, err, ferr)
	}
}

func TestTheProducersScriptRefuses(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	p := newProducer(t, s)
	ctx, c := t.Context(), srv.Client()
	const key = "app1:a:b:1"
	four := s.space.States(partition)
	before := c.DBSize(ctx).Val()
	for _, x := range []struct {
		keys []string
		args []any
		want string
	}{
		{four[:3], []any{key, "+0", "reject", ""}, "4 or 5 keys"},
		{p.keys(key), []any{key, "+0", "reject"}, "4 to 8 arguments"},
		{append([]string{"notifier:shadow:app1"}, four[1:]...), []any{key, "+0", "reject", ""}, "the first key is not"},
		{[]string{four[0], four[2], four[1], four[3]}, []any{key, "+0", "reject", ""}, "key 2 is not"},
		{s.space.States(keys.Partition{Prefix: prefix, Shard: 1}), []any{key, "+0", "reject", ""}, "no shard {1}"},
		{p.keys("other"), []any{key, "+0", "reject", ""}, "the fifth key"},
		{four, []any{"app1:a:b", "+0", "reject", ""}, "not app:module:type:id"},
		{four, []any{"app1:a b:c:d", "+0", "reject", ""}, "not app:module:type:id"},
		{four, []any{"app1:a:b:" + strings.Repeat("x", 129), "+0", "reject", ""}, "not app:module:type:id"},
		{four, []any{srv.Namespace() + ":a:b:c", "+0", "reject", ""}, "may not be the namespace"},
		{four, []any{"app12:a:b:c", "+0", "reject", ""}, "does not have the prefix"},
		{four, []any{key, "15s", "reject", ""}, "when is not"},
		{four, []any{key, "+-1", "reject", ""}, "when is not"},
		{four, []any{key, "+0", "r", ""}, "reject, keep or replace"},
		{four, []any{key, "+0", "reject", "", "a\nb"}, "content type"},
		{four, []any{key, "+0", "reject", "", "", "ftp://x"}, "the url"},
		{four, []any{key, "+0", "reject", "", "", "http://a b"}, "the url"},
		{four, []any{key, "+0", "reject", "", "", "", `m17","url":"http://x`}, "the audience"},
		{four, []any{key, "+0", "reject", "", "", "", strings.Repeat("m", 129)}, "the audience"},
		{four, []any{key, "+0", "reject", "", "", "", "m17", "", ""}, "4 to 8 arguments"},
		{four, []any{key, "+0", "reject", "", "", "", "", "5m"}, "expires is not"},
		{four, []any{key, "+0", "reject", "", "", "", "", "+0"}, "expires is not"},
		{four, []any{key, "+0", "reject", "", "", "", "", "+315360000001"}, "expires is not"},
		{four, []any{key, "+0", "reject", "", "", "", "", "=1700000000000"}, "before it is due"},
	} {
		if err := p.Run(ctx, c, x.keys, x.args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOTIFIER ") ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %q", x.args, err, x.want)
		}
	}
	// What no instance would find.
	typo := "app1:typo"
	for want, do := range map[string]func() ([]string, string){
		"no route ever had the prefix app1:typo": func() ([]string, string) {
			return s.space.States(keys.Partition{Prefix: typo}),
				typo + ":b:1"
		},
		fmt.Sprintf("is for layout %d, but this Redis has layout %d", Version, Version-1): func() ([]string, string) {
			c.HSet(ctx, s.space.Layout(0), "layout", Version-1)
			return four, key
		},
		"no instance of the service has started": func() ([]string, string) {
			c.Del(ctx, s.space.Layout(0))
			return four, key
		},
	} {
		keys, k := do()
		if err := p.Run(ctx, c, keys, k, "+0", "reject", "").Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		c.FlushDB(ctx)
		if err := s.Layout.Known(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.DBSize(ctx).Val(); n != before {
		t.Errorf("%d keys were written", n-before)
	}
}

// diff lists what differs.
func diff(a, b map[string]string) string {
	var out strings.Builder
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			fmt.Fprintf(&out, "- %s: %.300s\n+ %s: %.300s\n", k, v, k, w)
		}
	}
	for k, w := range b {
		if _, ok := a[k]; !ok {
			fmt.Fprintf(&out, "+ %s: %.300s\n", k, w)
		}
	}
	return out.String()
}

func corpus() []string {
	return []string{``, `{}`, `{"order": 7, "x": [1, 2.5e-3, -0, true, null]}`, `[]`, `"text"`, `"\u00e9\n"`, `1`, `-1.0E+7`, `01`, `+1`,
		`1.`, `.5`, `1e`,
		`0x1F`, `NaN`, `Infinity`, `-Infinity`, `nan`, `nul`, `tru`, `truefalse`, `[1,]`, `{"a":1,}`, `{"a"}`, `[1 2]`, ` {}`, "{}\n",
		"{\"a\":\n1}", `{"a":"` + "\t" + `"}`,
		`{"a":"` + "\x7f" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"ü€😀"}`, "ü€😀", "\xff\xfe", "a\x00b", "\xed\xa0\x80", "\xc0\x80",
		"\xf4\x90\x80\x80", "\xe0\x80\x80", "\xc3",
		"line\nline\r\n\ttab \"quoted\" back\\slash", "a=1&b=2", `{"a":1}{"b":2}`, strings.Repeat("[", 900) + strings.Repeat("]", 900),
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001), strings.Repeat("[", 5),
		"x", "xy", "xyz", "\xffx", "\xffxy", "\xffxyz", "é", `"` + "\xff" + `"`, `"\ud800"`, `""`, `"\"`, `"\\"`, `"\\\""`, `{"":""}`, `1 `,
		`true`, `--1`, `1-`, `1e5`, `1E`, `1.e5`, `00`, `-`, `-01`}
}

// randomBodies are texts that are JSON now and then.
func randomBodies(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"{", "}", "[", "]", ",", ":", `"a"`, `"`, `\`, "1", "-", "0", ".", "e", "true", "null", " ", "\n", "\x01", "\xff", "é",
		`\u0041`, `"b":`, "E+3"}
	out := make([]string, n)
	for i := range out {
		var b strings.Builder
		if i%2 == 0 {
			value(r, &b, 4)
		}
		for range r.IntN(7) * (i % 2) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		s := b.String()
		if i%4 == 0 && s != "" { // one byte of valid JSON is changed
			at := r.IntN(len(s))
			s = s[:at] + parts[r.IntN(len(parts))] + s[at+1:]
		}
		out[i] = s
	}
	return out
}

func value(r *rand.Rand, b *strings.Builder, deep int) {
	kind := r.IntN(7)
	if deep == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		b.WriteString([]string{"true", "false", "null"}[r.IntN(3)])
	case 1:
		b.WriteString(strconv.FormatFloat(r.NormFloat64()*1e6, "eEfg"[r.IntN(4)], -1, 64))
	case 2:
		b.WriteString(strconv.Itoa(r.IntN(1000) - 500))
	case 3, 4:
		b.WriteString([]string{`"plain"`, `"é€😀"`, `"\\\"\/\b\f\n\r\t"`, `"\u00e9\ud83d\ude00"`, `""`, `"a:b,{}[]"`}[r.IntN(6)])
	case 5:
		b.WriteString("[")
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(", ")
			}
			value(r, b, deep-1)
		}
		b.WriteString("]")
	default:
		b.WriteString("{")
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(b, "\"k%d\":", i)
			value(r, b, deep-1)
		}
		b.WriteString("}")
	}
}
