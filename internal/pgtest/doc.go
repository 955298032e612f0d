// Package pgtest gives tests a PostgreSQL: the one that
// NOTIFIER_TEST_POSTGRES_URL names, or one that is started from the programs
// initdb and postgres, found on PATH or where Debian keeps them. None found is a
// failure that says what to install. A server that was started ends with the
// test binary, however that ends.
package pgtest
