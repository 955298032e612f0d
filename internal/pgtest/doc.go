// Package pgtest gives tests a real PostgreSQL. [Database] uses the server at NOTIFIER_TEST_POSTGRES_URL, if that is
// set. Otherwise it starts one, as [Start] does in any case, with the programs initdb and postgres from PATH or
// Debian's package. Without them, the test fails and prints how to install PostgreSQL. A started server ends with the
// test binary at the latest, even if the binary is killed.
package pgtest
