// Package pgtest gives tests a real PostgreSQL: the server at NOTIFIER_TEST_POSTGRES_URL, or one that it starts with
// initdb and postgres from PATH or Debian's directory. Without either, the test fails with the command that installs
// them. A started server ends with the test binary, even if that is killed.
package pgtest
