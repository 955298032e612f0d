// Package cli is the command line: one file per command.
//
// Commands that look at notices speak to the HTTP API, found by NOTIFIER_URL
// and NOTIFIER_TOKEN; serve, doctor, routes and send-test read the service's own
// environment. Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
package cli
