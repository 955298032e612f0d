//go:build measure

package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// TestMeasure fills a PostgreSQL with HISTORY_ROWS rows (10,000,000), over thirty
// days and a thousand hosts, with bodies of 60 bytes, and measures what
// docs/history.md says of size and of searches. It needs about 0.7 kB of disk for
// each row.
func TestMeasure(t *testing.T) {
	t.Parallel()
	n := 10_000_000
	if s := os.Getenv("HISTORY_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	const days, hosts = 30, 1000
	d := open(t, Options{URL: testkit.StartPostgres(t).Database()})
	if err := d.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := noon.Truncate(24 * time.Hour)
	from := time.Now()
	for day := range days {
		at := first.AddDate(0, 0, day)
		if err := d.makeDay(t.Context(), at.Format(dayName), at); err != nil {
			t.Fatal(err)
		}
		_, err := d.db.Exec(`INSERT INTO history SELECT $1::timestamptz + random() * interval '86399 s', 'msg_' || substr(md5(i::text || $1), 1, 26), 1,
			'app' || i % 10, 'orders', 'paid', (i + $2 * $3)::text, 'app' || i % 10, 'shop' || (random() * $4)::int || '.example',
			CASE WHEN i % 100 = 0 THEN 'dead' ELSE 'delivered' END, CASE WHEN i % 100 = 0 THEN 'timeout' ELSE '' END, $1, 185903985000000 + i, 1,
				'', '', '', '',
			NULL, '', '[]', '[{"n":1,"at":"2026-11-20T12:00:00.123Z","status":200,"duration_ms":12.345,"response":"ok"}]', 60, NULL,
			'{"order":' || i || ',"text":"' || md5(i::text) || '"}', NULL FROM generate_series(1, $2::bigint) i`, at, n/days, day, hosts)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.db.Exec("VACUUM ANALYZE history"); err != nil {
		t.Fatal(err)
	}
	var size, table int64
	if err := d.db.QueryRow(`SELECT sum(pg_total_relation_size(inhrelid)), sum(pg_table_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'history'::regclass`).Scan(&size, &table); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows in %s: %d bytes a row, of which %d indexes; %d MB", n, time.Since(from).Round(time.Second), size/int64(n),
		(size-table)/int64(n), size>>20)
	for name, ask := range map[string]func() Query{
		"key": func() Query {
			i := rand.IntN(n/days) + 1
			return Query{Key: fmt.Sprintf("app%d:orders:paid:%d", i%10, i), Limit: 100}
		},
		"host and a day": func() Query {
			at := first.AddDate(0, 0, rand.IntN(days)).Add(6 * time.Hour)
			return Query{Host: fmt.Sprintf("shop%d.example", rand.IntN(hosts)), Since: at, Until: at.Add(24 * time.Hour), Limit: 100}
		},
		"prefix and an hour": func() Query {
			at := first.AddDate(0, 0, rand.IntN(days)).Add(6 * time.Hour)
			return Query{Prefix: fmt.Sprintf("app%d:orders", rand.IntN(10)), Since: at, Until: at.Add(time.Hour), Limit: 100}
		},
		"dead of a week": func() Query {
			at := first.AddDate(0, 0, rand.IntN(days-7))
			return Query{Outcomes: []notice.Ending{notice.EndDead}, Since: at, Until: at.AddDate(0, 0, 7), Limit: 100}
		},
		"words in ten minutes": func() Query {
			at := first.AddDate(0, 0, rand.IntN(days)).Add(6 * time.Hour)
			return Query{Text: "abcdef", Since: at, Until: at.Add(10 * time.Minute), Limit: 100}
		},
	} {
		const asked = 300
		took := make([]time.Duration, 0, asked)
		found := 0
		for range asked {
			q, began := ask(), time.Now()
			p, err := d.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
			found += len(p.Rows)
		}
		slices.Sort(took)
		t.Logf("%s: p50 %s, p99 %s, %d rows each", name, took[asked/2].Round(10*time.Microsecond), took[asked*99/100].Round(10*time.Microsecond),
			found/asked)
		text, args, err := d.question(ask())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s:\n%s", name, d.plan(t, text, args))
	}
	// The size of one in Redis, with a body of 200 bytes.
	q := newQueue(t, 1)
	e := fmt.Sprintf(`d %d app1:orders shop.example app1:orders:paid:4711 {"due":1763740800000,"made":185903985000000,"json":{"order":"%s"},"n":1,"attempts":[{"n":1,"at":1763740800000,"ms":12,"us":345,"status":200,"response":"ok"}]}`,
		noon.UnixMicro(), strings.Repeat("x", 188))
	if _, err := store.ReadEntry(e); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		q.c.RPush(t.Context(), q.space.Ended(0), e)
	}
	used, err := q.c.MemoryUsage(t.Context(), q.space.Ended(0), 0).Result()
	t.Logf("%d bytes of Redis for an ending of %d, %v", used/10_000, len(e), err)
}

// plan returns PostgreSQL's plan of a query.
func (d *DB) plan(t *testing.T, text string, args []any) string {
	t.Helper()
	rows, err := d.db.Query("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(line, "never executed") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
