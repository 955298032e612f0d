// Package sqlitehistory lets a program with package worker record finalized notices in a SQLite file. The program imports it for its
// side effect, and sets the option History of worker.Options to an address sqlite:///path:
//
//	import _ "notifier/worker/sqlitehistory"
package sqlitehistory
