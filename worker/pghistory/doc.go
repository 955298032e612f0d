// Package pghistory lets a program record finalized notices in PostgreSQL. It has the driver and the migrations. The service
// imports it. A program with package worker imports it for its side effect, and sets the option
// History of worker.Options to an address postgres://user:password@host:5432/database:
//
//	import _ "notifier/worker/pghistory"
package pghistory
