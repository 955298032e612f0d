package history

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// Where the database rejects columns, the row is stored without attempts. Its resends stay: by them a repeated resend is
// recognized, which was answered with 409 otherwise.
func TestRowWithoutAttemptsKeepsItsResends(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		e := ended(1, func(e *store.Entry) {
			e.Number, e.Endings, e.Resend, e.Resent = 3, 2, 1, 2
			e.Attempts, e.AttemptsMade = []notice.Attempt{{Number: 1, At: noon}}, 1
		})
		row := bareOf(rowsOf(BodiesKeep, e)[0])
		if len(row.Attempts) > 0 {
			t.Fatalf("%+v", row)
		}
		write(t, d, []Row{row})
		got, ok, err := d.Latest(t.Context(), e.Key)
		if err != nil || !ok || got.Resend != 1 || got.Resent != 2 || len(got.Attempts) != 0 || got.AttemptsMade != 1 {
			t.Errorf("%+v, %v, %v", got.Notice, ok, err)
		}
	})
}

// A row keeps when its notice expires, and its tick, with and without attempts.
func TestRowKeepsExpiryAndTick(t *testing.T) {
	t.Parallel()
	at := noon.Truncate(time.Millisecond)
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		for i, attempts := range [][]notice.Attempt{{{Number: 1, At: noon}}, nil} {
			for j, c := range []notice.Content{{Expires: at, Tick: at.Add(time.Second)}, {Tick: at},
				{Expires: at, ExpiresAfter: time.Hour, FirstExpires: notice.NoExpiry}, {}} {
				e := ended(4*i+j+1, func(e *store.Entry) { e.Content, e.Attempts, e.AttemptsMade = c, attempts, len(attempts) })
				write(t, d, rowsOf(BodiesKeep, e))
				got, ok, err := d.Latest(t.Context(), e.Key)
				if err != nil || !ok || len(got.Attempts) != len(attempts) || len(got.Damaged) > 0 || !got.Expires.Equal(c.Expires) ||
					!got.Tick.Equal(c.Tick) || got.ExpiresAfter != c.ExpiresAfter || got.FirstExpires != c.FirstExpires {
					t.Errorf("%+v, %v, %v; want %+v", got.Notice, ok, err, c)
				}
			}
		}
	})
}

// A row keeps the url of the schedule call, so that a notice sent again from the history is compared with it.
func TestRowKeepsTheScheduledAddress(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		for i, attempts := range [][]notice.Attempt{{{Number: 1, At: noon}}, nil} {
			asked := notice.Content{URL: "https://u:p@old.example/a?b=c", Headers: []notice.Header{{Name: "x-a", Value: "1"}}}
			e := ended(i+1, func(e *store.Entry) {
				e.Content, e.Attempts, e.AttemptsMade, e.Number, e.Endings, e.Resend, e.Resent = asked, attempts, len(attempts), 2, 1, 1, 1
				e.Notice = e.Readdress(notice.Address{URL: "https://new.example/"})
			})
			write(t, d, rowsOf(BodiesKeep, e))
			got, ok, err := d.Latest(t.Context(), e.Key)
			if err != nil || !ok || got.URL != "https://new.example/" || got.ScheduledURL() != "https://u@old.example/a?b=c" ||
				got.Host != "new.example" || got.Resend != 1 || len(got.Attempts) != len(attempts) || len(got.Damaged) > 0 {
				t.Errorf("%+v, %v, %v", got.Notice, ok, err)
				continue
			}
			if diff := asked.Diff(&got.Content); len(diff) > 0 {
				t.Errorf("the schedule call differs in %v", diff)
			}
		}
	})
}
