// Package sqlitehistory lets a program record finalized notices in a SQLite file. It has the driver and the migrations. The
// service imports it. A program with package worker imports it for its side effect, and sets the option
// History of worker.Options to an address sqlite:///path:
//
//	import _ "notifier/worker/sqlitehistory"
package sqlitehistory
