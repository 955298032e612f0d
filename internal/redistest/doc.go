// Package redistest gives tests a real Redis.
//
// [Start] makes a server of the test's own: it may be killed, paused and
// restarted, and is configured as the test likes. [Shared] hands out one
// database of a server that all tests of a test binary share, which costs
// nothing but a FLUSHDB.
//
// The shared server is found in this order: NOTIFIER_TEST_REDIS_URL; a
// container by dockertest, when Docker answers and the image redis:local (made
// by scripts/test-image.sh) or redis:7-alpine is there or can be pulled; a
// redis-server on PATH. A server of a test's own needs signals to a process and
// is therefore taken from PATH first and from Docker second. Where there is
// none the test fails and says what to install; nothing is skipped.
// NOTIFIER_TEST_REDIS_SERVER, the path of another redis-server or of a
// valkey-server, is taken before both.
//
// No goroutine outlives a call, so that packages can check for leaks; a small
// shell beside each server ends it when the test binary is gone, however that
// came about.
package redistest
