package history

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite" // the driver "sqlite"

	"notifier/internal/notice"
)

//go:embed migrations
var migrations embed.FS

// Time limits of the database.
const (
	dialTimeout    = 5 * time.Second
	writeTimeout   = 30 * time.Second
	migrateTimeout = 5 * time.Minute
	busyTimeout    = 10 * time.Second // for another process's write to SQLite's file
	ddlTimeout     = 2 * time.Second  // for the lock of a partition: writes queue behind it
)

// Options of Open.
type Options struct {
	// URL is postgres://… or sqlite:///path.
	URL string
	// Bodies selects how much of a notice's body is stored.
	Bodies Bodies
	// Retention is how long rows are kept; zero = without limit.
	Retention time.Duration
}

// Bodies selects how much of the notices' bodies the history stores.
type Bodies string

// The values of Bodies.
const (
	BodiesKeep Bodies = "keep"
	BodiesHash Bodies = "hash" // SHA-256 and size
	BodiesDrop Bodies = "drop" // the size
)

// DB is a history database. It is safe for concurrent use.
type DB struct {
	o      Options
	db     *sql.DB // for writes and replays
	sqlite bool
	// Separate connections, so that writes do not wait for searches.
	lookups, searches *sql.DB
	texts             texts
	file              string // of SQLite

	cleaning cleaning

	owner atomic.Pointer[func(context.Context) (Owner, error)] // nil = the owner is not checked
	mine  atomic.Pointer[Owner]                                // the last answer of owner
	// follow is nil if an owner whose data are lost stays the owner.
	follow atomic.Pointer[following]

	upgraded atomic.Bool
	mu       sync.Mutex // guards upgrade and the fields below
	days     map[string]bool
}

// Open parses the URL and prepares connections. It does not contact the database. Its errors do not contain
// the URL, which may hold a password.
func Open(o Options) (*DB, error) {
	d := &DB{o: o, days: map[string]bool{}}
	scheme, rest, _ := strings.Cut(o.URL, "://")
	switch scheme {
	case "postgres", "postgresql":
		c, err := pgx.ParseConfig(o.URL)
		if err != nil {
			return nil, fmt.Errorf("%w: not an address of PostgreSQL; want postgres://user:password@host:5432/database", ErrConfig)
		}

		c.ConnectTimeout = dialTimeout
		if c.RuntimeParams["application_name"] == "" {
			c.RuntimeParams["application_name"] = "notifier"
		}

		c.RuntimeParams["timezone"] = "UTC"
		if err := d.connect(func() (*sql.DB, error) { return stdlib.OpenDB(*c), nil }); err != nil {
			return nil, err
		}
	case "sqlite":
		path, _, _ := strings.Cut(rest, "?")
		if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
			return nil, fmt.Errorf("%w: want sqlite:///path/to/file, with three slashes", ErrConfig)
		}

		// FULL, because a confirmed write must survive a power cut. secure_delete, because erased data must
		// not remain in the file.
		settings := fmt.Sprintf("?_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)"+
			"&_pragma=synchronous(FULL)&_pragma=secure_delete(1)", busyTimeout.Milliseconds())
		d.sqlite, d.file = true, path
		err := d.connect(func() (*sql.DB, error) {
			return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+settings)
		})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	default:
		return nil, fmt.Errorf("%w: want postgres://… or sqlite:///path/to/file", ErrConfig)
	}

	return d, nil
}

// createPrivate creates a SQLite file that only its owner can read. An existing file keeps its permissions. Errors are
// ignored, because the first operation on the database reports them.
func createPrivate(path string) {
	if f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close()
	}
}

// connect creates the connections for writes, lookups and searches.
func (d *DB) connect(open func() (*sql.DB, error)) (err error) {
	for _, p := range []struct {
		to   **sql.DB
		most int
	}{{&d.db, writeConns}, {&d.lookups, lookupConns}, {&d.searches, searchConns}} {
		if *p.to, err = open(); err != nil {
			return err
		}

		(*p.to).SetMaxOpenConns(p.most)
		(*p.to).SetConnMaxIdleTime(time.Minute)
	}

	return nil
}

// Close closes all connections.
func (d *DB) Close() error { return errors.Join(d.searches.Close(), d.lookups.Close(), d.db.Close()) }

// SQLite reports whether the database is a file of this machine.
func (d *DB) SQLite() bool { return d.sqlite }

// Begin prepares the database for an operation, and most operations call it first. It migrates the schema to that of
// this program. If [DB.Serve] has set a service, Begin also checks that the history does not belong to another one. The
// error wraps ErrNewer if the schema is newer than the program, and ErrForeign if the history belongs to another
// service.
func (d *DB) Begin(ctx context.Context) error {
	_, err := d.begin(ctx)
	return err
}

// begin does the work of Begin. owned is false if the history has no owner yet.
func (d *DB) begin(ctx context.Context) (owned bool, err error) {
	if err := d.upgrade(ctx); err != nil {
		return false, err
	}
	return d.checkOwner(ctx)
}

// upgrade brings the schema up to date. After the first success it does nothing.
func (d *DB) upgrade(ctx context.Context) error {
	if d.upgraded.Load() {
		return nil
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if d.upgraded.Load() {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()

	if d.sqlite {
		createPrivate(d.file)
	}

	err := d.migrate(ctx)

	for try := 1; err != nil && d.sqlite && try < 5 && !errors.Is(err, ErrNewer); try++ {
		// Another process may have been first: its steps are skipped.
		err = d.migrate(ctx)
	}

	if err != nil {
		return d.wrap("migrate", err)
	}

	d.upgraded.Store(true)
	return nil
}

func (d *DB) migrate(ctx context.Context) error {
	dialect, dir := goose.DialectPostgres, "migrations/postgres"
	var more []goose.ProviderOption
	if d.sqlite {
		dialect, dir = goose.DialectSQLite3, "migrations/sqlite"
	} else {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 240), lock.WithUnlockTimeout(1, 5))
		if err != nil {
			return err
		}

		more = append(more, goose.WithSessionLocker(locker))
	}

	files, err := fs.Sub(migrations, dir)
	if err != nil {
		return err
	}
	if err := d.ping(ctx); err != nil { // goose would wait too long for an unreachable server
		return err
	}

	p, err := goose.NewProvider(dialect, d.db, files, append(more, goose.WithTableName("history_schema"),
		goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return err
	}

	has, knows, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}

	if has > knows {
		return fmt.Errorf("%w: it has version %d, this program knows %d; run the version of the program that wrote it, or one after it, "+
			"or point NOTIFIER_HISTORY_URL at another database", ErrNewer, has, knows)
	}

	if has == knows {
		return nil
	}

	_, err = p.Up(ctx)
	return err
}

func (d *DB) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return d.db.PingContext(ctx)
}

// Newest returns the version of the schema that this program writes.
const Newest = 8

// Version returns the version of the schema in the database; zero = none yet. It changes nothing.
func (d *DB) Version(ctx context.Context) (int64, error) {
	if d.file != "" {
		if _, err := os.Stat(d.file); errors.Is(err, fs.ErrNotExist) {
			return 0, nil // a query would create the file
		}
	}

	there, has := "SELECT to_regclass('history_schema') IS NOT NULL", int64(0)
	if d.sqlite {
		there = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'history_schema')"
	}

	var ok bool
	err := d.db.QueryRowContext(ctx, there).Scan(&ok)
	if err == nil && ok {
		err = d.db.QueryRowContext(ctx, "SELECT max(version_id) FROM history_schema").Scan(&has)
	}

	return has, d.wrap("version", err)
}

// wrap names the failed operation, and adds ErrUnavailable if the database is unreachable. No driver's error
// contains the password.
func (d *DB) wrap(op string, err error) error {
	if err == nil || errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign) {
		return err
	}

	var refused *pgconn.PgError
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("history: %s: %w", op, err)
	case errors.As(err, &refused) && !gone(refused.Code):
		return fmt.Errorf("history: %s: %w", op, err)
	}

	if locked(err) {
		return fmt.Errorf("%w: %s: another process has locked the file for %s and goes on; is an instance of this machine stopped (kill -STOP, "+
			"a debugger), "+
			"or a tool in the middle of a transaction? %w", ErrUnavailable, op, notice.Short(busyTimeout), err)
	}

	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, err)
}

// locked reports whether SQLite gave up waiting for another process's write.
func locked(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == 5 // BUSY
}

// gone reports whether an SQLSTATE means that the server cannot work now, rather than that it rejects the
// statement.
func gone(code string) bool {
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58": // connection, resources (disk full), operator, system
		return true
	}
	return false
}
