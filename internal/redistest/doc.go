// Package redistest gives tests a real Redis.
//
// [Start] runs a server for one test, which may kill, pause, restart and configure it. [Shared] is faster: it returns
// one empty database of a server that all tests of a test binary share.
//
// # Which server
//
// [Shared] uses the first of these:
//
//  1. the server at NOTIFIER_TEST_REDIS_URL, if that is set
//  2. a container of redis:local (built by scripts/test-image.sh) or redis:7-alpine, if Docker can run one
//  3. a redis-server on PATH
//
// [Start] uses a redis-server on PATH, or else a container, but not with [WithEnv]. NOTIFIER_TEST_REDIS_SERVER is the
// path of a redis-server or valkey-server to run instead of both.
//
// Without any server the test fails and names the remedy. No test is skipped.
//
// # Leaks
//
// No goroutine of this package outlives a call, so that tests can check for leaked goroutines. A server that the
// package has started normally ends with the test binary, even if the binary is killed.
package redistest
