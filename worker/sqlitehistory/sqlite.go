package sqlitehistory

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite" // the driver "sqlite"

	"notifier/internal/history"
)

//go:embed migrations
var migrations embed.FS

func init() {
	history.Register(history.Driver{Parse: parse, Schema: newSchema, Fault: fault}, "sqlite")
}

func parse(address string) (open func() (*sql.DB, error), file string, err error) {
	_, rest, _ := strings.Cut(address, "://")
	file, _, _ = strings.Cut(rest, "?")
	if !strings.HasPrefix(file, "/") || strings.HasSuffix(file, "/") {
		return nil, "", errors.New("want sqlite:///path/to/file, with three slashes")
	}

	// FULL, because a confirmed write must survive a power cut. secure_delete, because erased data must
	// not remain in the file.
	settings := fmt.Sprintf("?_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)"+
		"&_pragma=synchronous(FULL)&_pragma=secure_delete(1)", history.BusyTimeout.Milliseconds())
	return func() (*sql.DB, error) {
		return sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+settings)
	}, file, nil
}

type schema struct{ *goose.Provider }

// Upgrade applies the migrations that are missing. It fails if another process applies them at the same time.
func (s schema) Upgrade(ctx context.Context) error {
	_, err := s.Up(ctx)
	return err
}

func newSchema(db *sql.DB) (history.Schema, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}

	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithTableName("history_schema"), goose.WithDisableGlobalRegistry(true))
	return schema{p}, err
}

// fault classifies errors by SQLite's primary result code.
func fault(err error) history.Fault {
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return history.Unreachable
	}

	switch lite.Code() & 0xff {
	case 5: // BUSY
		return history.Locked
	case 18, 20: // TOOBIG, MISMATCH
		return history.Content
	}

	return history.Unreachable
}
