package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
)

// Time limits of the database.
const (
	writeTimeout   = 30 * time.Second
	migrateTimeout = 5 * time.Minute
	ddlTimeout     = 2 * time.Second // for the lock of a partition: writes queue behind it
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
	driver Driver
	db     *sql.DB // for writes and replays
	sqlite bool
	// Separate connections, so that writes do not wait for searches.
	lookups, searches *sql.DB
	texts             texts
	file              string // of SQLite

	cleaning cleaning

	owner    atomic.Pointer[func(context.Context) (Owner, error)] // nil = the owner is not checked
	mine     atomic.Pointer[Owner]                                // the last answer of owner
	sealKeys atomic.Pointer[KeySource]                            // nil = no keys of sealed rows are stored
	// follow is nil if an owner whose data are lost stays the owner.
	follow atomic.Pointer[following]

	upgraded atomic.Bool
	mu       sync.Mutex // guards upgrade and the fields below
	days     map[string]bool
}

// Open parses the URL and prepares connections. It does not contact the database. Its errors do not contain
// the URL, which may hold a password. The program must import the package of the database: see [Register].
func Open(o Options) (*DB, error) {
	scheme, _, _ := strings.Cut(o.URL, "://")
	driver, ok := drivers[scheme]
	if name := packages[scheme]; !ok && name != "" {
		return nil, fmt.Errorf("%w: this program lacks the driver for %s://; want the import _ %q", ErrConfig, scheme, name)
	}

	if !ok {
		return nil, fmt.Errorf("%w: want postgres://… or sqlite:///path/to/file", ErrConfig)
	}

	open, file, err := driver.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}

	d := &DB{o: o, driver: driver, sqlite: file != "", file: file, days: map[string]bool{}}
	if err := d.connect(open); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
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
	if err := d.ping(ctx); err != nil { // the migrations would wait too long for an unreachable server
		return err
	}

	schema, err := d.driver.Schema(d.db)
	if err != nil {
		return err
	}

	has, knows, err := schema.GetVersions(ctx)
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

	return schema.Upgrade(ctx)
}

func (d *DB) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	return d.db.PingContext(ctx)
}

// Newest returns the version of the schema that this program writes.
const Newest = 11

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
	if err == nil || errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign) || errors.Is(err, ErrNoKeys) {
		return err
	}

	fault := d.driver.Fault(err)
	switch {
	case errors.Is(err, context.Canceled), fault != Unreachable && !d.sqlite:
		return fmt.Errorf("history: %s: %w", op, err)
	case fault == Locked:
		return fmt.Errorf("%w: %s: another process has locked the file for %s and goes on; is an instance of this machine stopped (kill -STOP, "+
			"a debugger), "+
			"or a tool in the middle of a transaction? %w", ErrUnavailable, op, notice.Short(BusyTimeout), err)
	}

	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, err)
}
