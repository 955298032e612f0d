// Package testkit gives tests a real Redis and a real PostgreSQL, replies that a fuzzer makes, and a check that no secret is shown.
//
// [StartRedis] runs a server for one test, which may kill, pause, restart and configure it. [SharedRedis] is faster: it returns
// one empty database of a server that all tests of a test binary share.
//
// # Which server
//
// [SharedRedis] uses the first of these:
//
//  1. the server at NOTIFIER_TEST_REDIS_URL, if that is set
//  2. a container of redis:local (built by scripts/test-image.sh) or redis:7-alpine, if Docker can run one
//  3. a redis-server on PATH
//
// [StartRedis] uses a redis-server on PATH, or else a container, but not with [WithEnv]. NOTIFIER_TEST_REDIS_SERVER is the
// path of a redis-server or valkey-server to run instead of both.
//
// Without any server the test fails and names the remedy. No test is skipped.
//
// # Leaks
//
// No goroutine of this package outlives a call, so that tests can check for leaked goroutines. A server that the
// package has started normally ends with the test binary, even if the binary is killed.
//
// # PostgreSQL
//
// [PostgresDatabase] uses the server at NOTIFIER_TEST_POSTGRES_URL, if that is set. Otherwise it starts one, as
// [StartPostgres] does in any case, with the programs initdb and postgres from PATH or Debian's package. Without them, the
// test fails and prints how to install PostgreSQL. A started server ends with the test binary at the latest, even if the
// binary is killed.
//
// # Secrets
//
// [CheckSecrets] checks that no secret reaches a log, an error or an answer. The tests of all packages use the same check.
package testkit
