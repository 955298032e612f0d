// Package pgtest provides tests with a real PostgreSQL. It uses the server of NOTIFIER_TEST_POSTGRES_URL, or
// starts one with initdb and postgres from PATH or from Debian's directory. Without either, the test fails
// with the command that installs them. A started server ends with the test binary, however that ends.
package pgtest
