package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// ReplayState is the state of a replay.
type ReplayState string

// The states of a replay.
const (
	ReplayRunning ReplayState = "running"
	ReplayStopped ReplayState = "stopped"
	ReplayDone    ReplayState = "done"
	ReplayFailed  ReplayState = "failed"
)

// Replay is a replay with its request and progress.
type Replay struct {
	ID string // unique
	// Name is the id given by the client, or ID. It is unique per client, and other clients see it as the
	// replay's id.
	Name   string
	State  ReplayState
	Reason string // why the replay failed
	Client string // the client that created the replay
	Prefix string
	Host   string
	Total  int64 // number of items
	Done   int64 // number of the last item that the database knows to be done
	// Counts is the number of items by result.
	Counts        map[string]int64
	Made, Changed time.Time
	ReplayAbout
}

// ReplayAbout is the rest of a replay's request, and the refusals.
type ReplayAbout struct {
	Outcomes []notice.Ending `json:"outcomes"`
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"`
	Rate     float64         `json:"rate"` // per second
	NewIDs   bool            `json:"new_ids,omitempty"`
	// Asked is Until as requested, by which a repeated call is recognized; zero = until the replay was
	// created.
	Asked time.Time `json:"asked,omitzero"`
	// Shards is the number of shards when the items were numbered. The progress is stored per shard.
	Shards  int              `json:"shards"`
	Refused map[string]int64 `json:"refused,omitempty"`
}

// NewReplayID returns a unique id of a replay.
func NewReplayID() string { return "rpl_" + strings.ToLower(rand.Text()[:20]) }

// Mark names a replay in Redis.
func (r *Replay) Mark() string { return fmt.Sprintf("%s:%d", r.ID, r.Made.UnixMilli()) }

// Same reports whether two requests of replays are equal. The rate is compared as a database stores it.
func (r *Replay) Same(o *Replay) bool {
	return r.Prefix == o.Prefix && r.Host == o.Host && r.Since.Equal(o.Since) && r.Asked.Equal(o.Asked) && r.Rate == o.Rate &&
		r.NewIDs == o.NewIDs &&
		slices.Equal(r.Outcomes, o.Outcomes)
}

// MaxReplay is the maximum number of notices in one replay.
const MaxReplay = 500_000

// Time limit for choosing the notices of a replay, and the number of rows that one statement reads or writes.
const (
	chooseTimeout = time.Minute
	choosePage    = 500
	chooseWrite   = 500
)

// Choice is a notice of a replay, with the row from which it is sent.
type Choice struct {
	Ended  int64 // Unix µs
	ID     string
	Ending int // number of the entry, which is how often the notice has ended
	Shard  int
	Key    keys.Key
}

// Choose selects the notices that the replay r delivers again, and calls the function each once per notice, ordered by
// time. A notice is selected if it was delivered or became dead within the time window, prefix and host of r, and its
// last entry in the history has one of r.Outcomes. row is that last entry, without its body and some other columns.
// Choice.Shard is not set. The error wraps ErrSlow if choosing takes longer than a minute.
func (d *DB) Choose(ctx context.Context, r *Replay, each func(row *Row, c Choice) error) error {
	if err := d.Begin(ctx); err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, chooseTimeout)
	defer cancel()

	var from *cursor
	doubles := map[string]bool{}

	for {
		n, err := d.choosePage(limited, r, &from, doubles, each)
		switch {
		case err != nil && ctx.Err() == nil && limited.Err() != nil:
			return fmt.Errorf("%w: more than %s; ask for a shorter window, or for a host or a prefix as well", ErrSlow, notice.Short(chooseTimeout))
		case err != nil:
			return d.wrap("replay", err)
		case n < choosePage:
			return nil
		}
	}
}

// lastEnding joins a row h with the row x of its notice's last entry.
func (d *DB) lastEnding() string {
	const same = "l.app = h.app AND l.module = h.module AND l.type = h.type AND l.name = h.name AND l.id = h.id AND l.ended >= h.ended " +
		"ORDER BY l.ended DESC, l.ending DESC LIMIT 1"
	if d.sqlite {
		return "JOIN history x ON x.id = h.id AND (x.ended, x.ending) = (SELECT l.ended, l.ending FROM history l WHERE " + same + ")"
	}

	return "CROSS JOIN LATERAL (SELECT * FROM history l WHERE " + same + ") x"
}

// hasMember returns the condition that the row x is sealed and has a member of attemptsText.
func (d *DB) hasMember(member string) string {
	find := "strpos"
	if d.sqlite {
		find = "instr"
	}

	// The first object of a row without attempts has no comma before the member.
	return "x.body_size < 0 AND " + find + "(x.attempts, '" + member[1:] + "') > 0"
}

// chosenColumns are the columns that choosePage reads.
var chosenColumns = []string{"ended", "ending", "ended", "id", "ending", "app", "module", "type", "name", "route", "host", "outcome",
	"reason", "made", "url", "audience",
	"headers", "body_sha256", "body_text"}

func (d *DB) choosePage(ctx context.Context, r *Replay, from **cursor, doubles map[string]bool, each func(row *Row, c Choice) error) (n int,
	err error) {
	c := &conditions{d: d}
	c.restrict(Query{Prefix: r.Prefix, Host: r.Host, Since: r.Since, Until: r.Until, Outcomes: []notice.Ending{notice.EndDelivered,
		notice.EndDead}})
	if *from != nil {
		t := d.time(time.UnixMicro((*from).Ended).UTC())
		c.add("ended >= "+at, t)
		c.add("(ended, id, ending) > ("+at+", "+at+", "+at+")", t, (*from).ID, (*from).Ending)
	}

	rows, err := d.searches.QueryContext(ctx,
		fmt.Sprintf(`SELECT h.ended, h.ending, x.ended, x.id, x.ending, x.app, x.module, x.type, x.name, x.route, x.host, x.outcome, x.reason,
		x.made, x.url, x.audience, x.headers, CASE WHEN x.body_sha256 IS NOT NULL OR %s THEN 1 ELSE 0 END,
		CASE WHEN x.body_text IS NOT NULL OR x.body IS NOT NULL OR x.body_size = 0 OR %s THEN 1 ELSE 0 END
		FROM (SELECT ended, id, ending, app, module, type, name FROM history%s ORDER BY ended, id, ending LIMIT %d) h %s
		ORDER BY h.ended, h.id, h.ending`, d.hasMember(sameMember), d.hasMember(sealedMember), c.where(), choosePage, d.lastEnding()), c.args...)
	if err != nil {
		return 0, err
	}

	defer rows.Close()

	for rows.Next() {
		n++
		row := Row{Notice: &notice.Notice{}}
		var ch Choice
		f := newRowReader(chosenColumns)
		if err := rows.Scan(f.targets()...); err != nil {
			return n, err
		}

		first, number, last := f.time(), int(f.number()), f.time()
		ch.ID, ch.Ending, ch.Key = f.text(), int(f.number()), keys.Key{App: f.text(), Module: f.text(), Type: f.text(), ID: f.text()}
		row.Route, row.Host, row.Outcome, row.Reason = f.text(), f.text(), readOutcome(f), notice.Reason(f.text())
		row.Made, row.URL, row.Audience = notice.Made(f.number()), f.text(), f.text()
		row.Headers, row.Withheld = readHeaders(f)
		hashed, kept := f.number(), f.number()
		row.Damaged = f.damaged
		*from = &cursor{first.UnixMicro(), ch.ID, number}
		if !slices.Contains(r.Outcomes, row.Outcome) || doubles[ch.ID] {
			continue
		}

		if ch.Ending > 1 || !last.Equal(first) { // the notice may have other rows in the window
			doubles[ch.ID] = true
		}

		if row.Key = ch.Key.String(); ch.Key.App == "" {
			row.Key = ch.Key.ID
		}

		ch.Ended, row.Ended, row.Number, row.BodyKept = last.UnixMicro(), last, ch.Ending, kept == 1
		if hashed == 1 {
			row.BodyHash = []byte{}
		}

		if err := each(&row, ch); err != nil {
			return n, err
		}
	}

	return n, rows.Err()
}

// AddReplay stores a replay with its notices, and numbers them in order. Notices that are erased during the
// call are left out. It returns ErrReplayKnown if the client has a replay with this name.
func (d *DB) AddReplay(ctx context.Context, r *Replay, list []Choice) error {
	ctx, cancel := context.WithTimeout(ctx, chooseTimeout)
	defer cancel()
	if err := d.addReplay(ctx, r, list); !errors.Is(err, ErrReplayKnown) {
		return d.wrap("replay", err)
	}

	return ErrReplayKnown
}

func (d *DB) addReplay(ctx context.Context, r *Replay, list []Choice) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	if !d.sqlite {
		// An erasure waits for the rows that it must find, and rows that it has erased are not found here.
		if _, err := tx.ExecContext(ctx, "LOCK TABLE history IN ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
	}

	if err := d.own(ctx, tx); err != nil {
		return err
	}

	about, err := json.Marshal(r.ReplayAbout)
	if err != nil {
		return err
	}

	r.Name = cmp.Or(r.Name, r.ID)
	r.State, r.Total = ReplayRunning, int64(len(list))
	var made, changed moment
	if err := tx.QueryRowContext(ctx,
		d.marks(`INSERT INTO history_replays (id, name, state, reason, client, prefix, host, about, total, done, counts, made, changed, driver, lease)
		VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, 0, '{}',
			`+d.clock(0)+", "+d.clock(0)+", '', "+d.clock(0)+") ON CONFLICT (client, name) WHERE name <> '' DO NOTHING RETURNING made, changed"),
		r.ID, r.Name, string(r.State), r.Client, r.Prefix, r.Host, string(about), r.Total).Scan(&made, &changed); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return ErrReplayKnown
		}
		return err
	}

	r.Made, r.Changed = made.Time, changed.Time
	for i := 0; i < len(list); i += chooseWrite {
		if err := d.addItems(ctx, tx, r.ID, i, list[i:min(i+chooseWrite, len(list))]); err != nil {
			return err
		}
	}

	if _, err := tx.ExecContext(ctx, d.marks(blank+` WHERE replay = ? AND NOT EXISTS
		(SELECT 1 FROM history h WHERE h.ended = i.ended AND h.id = i.id AND h.ending = i.ending)`), r.ID); err != nil {
		return err
	}

	return tx.Commit()
}

// addItems writes items with consecutive numbers in one statement.
func (d *DB) addItems(ctx context.Context, tx *sql.Tx, id string, from int, list []Choice) error {
	const columns = 10
	args := make([]any, 0, columns*len(list))
	for i := range list {
		c := &list[i]
		args = append(args, id, int64(from+i+1), c.Shard, d.time(time.UnixMicro(c.Ended).UTC()), c.ID, c.Ending, c.Key.App, c.Key.Module,
			c.Key.Type, c.Key.ID)
	}

	one := "(?" + strings.Repeat(", ?", columns-1) + ")"
	_, err := tx.ExecContext(ctx,
		d.marks("INSERT INTO history_replay_items (replay, number, shard, ended, id, ending, app, module, type, name) VALUES "+
			one+strings.Repeat(", "+one, len(list)-1)), args...)
	return err
}

// blank removes the data of notices from items; their numbers stay.
const blank = "UPDATE history_replay_items AS i SET id = '', app = '', module = '', type = '', name = ''"

// eraseItems removes an erased key or host from replays, before the rows are deleted.
func (d *DB) eraseItems(ctx context.Context, tx *sql.Tx, x Erasure, until time.Time) error {
	if x.Key != "" {
		k := parts(x.Key)
		_, err := tx.ExecContext(ctx, d.marks(blank+" WHERE app = ? AND module = ? AND type = ? AND name = ? AND ended <= ?"),
			k.App, k.Module, k.Type, k.ID, d.time(until))
		return err
	}

	if _, err := tx.ExecContext(ctx, d.marks(blank+` WHERE EXISTS (SELECT 1 FROM history h
		WHERE h.ended = i.ended AND h.id = i.id AND h.ending = i.ending AND h.host = ? AND h.ended <= ?)`), x.Host, d.time(until)); err != nil {
		return err
	}

	_, err := tx.ExecContext(ctx, d.marks("UPDATE history_replays SET host = '(erased)' WHERE host = ?"), x.Host)
	return err
}

// marks replaces a statement's question marks by the database's placeholders.
func (d *DB) marks(text string) string {
	if d.sqlite {
		return text
	}

	var b strings.Builder
	n := 0

	for part := range strings.SplitSeq(text, "?") {
		if n > 0 {
			fmt.Fprintf(&b, "$%d", n)
		}

		b.WriteString(part)
		n++
	}

	return b.String()
}

// clock returns a term of SQL: the database's time, or a later one.
func (d *DB) clock(after time.Duration) string {
	if d.sqlite {
		return fmt.Sprintf("(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + %d)", after.Microseconds())
	}
	return fmt.Sprintf("(now() + interval '%d milliseconds')", after.Milliseconds())
}
