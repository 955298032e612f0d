// Package redistest provides tests with a real Redis.
//
// [Start] runs a server for one test, which may kill, pause, restart and configure it. [Shared] returns one
// database of a server that all tests of a test binary share, which costs only a FLUSHDB.
//
// The shared server is the first available one of: NOTIFIER_TEST_REDIS_URL; a container started by
// dockertest, if Docker answers and the image redis:local (built by scripts/test-image.sh) or redis:7-alpine
// exists or can be pulled; a redis-server on PATH.
//
// A server for one test must receive signals, so a redis-server on PATH is tried first, and a container
// second. NOTIFIER_TEST_REDIS_SERVER, if set, is the path of a redis-server or valkey-server to run instead.
//
// Without any server the test fails with the command that installs one; no test is skipped.
//
// No goroutine outlives a call, so that packages can check for leaks. A small shell process for each server
// ends the server when the test binary has ended in any way.
package redistest
