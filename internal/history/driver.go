package history

import (
	"context"
	"database/sql"
	"time"
)

// Driver is a kind of database.
type Driver struct {
	// Parse checks an address and returns how a connection pool is opened, and the path if the database is a file. Its
	// errors do not contain the address, which may hold a password.
	Parse func(address string) (open func() (*sql.DB, error), file string, err error)
	// Schema prepares the migrations of a database.
	Schema func(db *sql.DB) (Schema, error)
	// Fault classifies the error of a statement.
	Fault func(err error) Fault
}

// Schema is the numbered migrations of a database.
type Schema interface {
	// GetVersions returns the version of the database, and the one that this program writes.
	GetVersions(ctx context.Context) (has, knows int64, err error)
	Upgrade(ctx context.Context) error
}

// Fault is why a statement failed.
type Fault int

// The faults.
const (
	Unreachable Fault = iota // the database cannot work now, or the error is of no kind below
	Refused                  // the database rejects the statement
	Content                  // the database rejects the content of the rows, and would reject it again
	Locked                   // another transaction has held a lock for too long
)

// Time limits of drivers.
const (
	DialTimeout = 5 * time.Second
	BusyTimeout = 10 * time.Second // for another process's write to SQLite's file
)

var drivers = map[string]Driver{}

// packages names the package that a program imports for the addresses of a scheme.
var packages = map[string]string{"sqlite": "notifier/worker/sqlitehistory", "postgres": "notifier/worker/pghistory",
	"postgresql": "notifier/worker/pghistory"}

// Register makes a driver known by the schemes of its addresses. Packages worker/pghistory and worker/sqlitehistory
// register theirs when they are imported. It must not be called while other functions of this package run.
func Register(d Driver, schemes ...string) {
	for _, scheme := range schemes {
		drivers[scheme] = d
	}
}
