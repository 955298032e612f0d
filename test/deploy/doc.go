// Package deploy tests the files under deploy/ with the service and a real Redis. It contains
// only tests.
package deploy
