// Package pghistory lets a program with package worker record finalized notices in PostgreSQL. The program imports it for its
// side effect, and sets the option History of worker.Options to an address postgres://user:password@host:5432/database:
//
//	import _ "notifier/worker/pghistory"
package pghistory
