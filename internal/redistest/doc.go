// Package redistest gives tests a real Redis.
//
// [Start] runs a server for one test, which may kill, pause, restart and configure it. [Shared] is faster: it returns
// one empty database of a server that all tests of a test binary share.
//
// # Which server
//
// [Shared] uses the first available of these:
//  1. the server at NOTIFIER_TEST_REDIS_URL
//  2. a container, if Docker answers and has or can pull the image redis:local (built by scripts/test-image.sh) or
//     redis:7-alpine
//  3. a redis-server on PATH
//
// [Start] uses a redis-server on PATH, or else a container. NOTIFIER_TEST_REDIS_SERVER is the path of a redis-server
// or valkey-server to run instead of both.
//
// Without any server the test fails, with the command that installs one. No test is skipped.
//
// # Leaks
//
// No goroutine outlives a call, so that packages can check for leaked goroutines. A server ends with the test binary,
// however that ends.
package redistest
