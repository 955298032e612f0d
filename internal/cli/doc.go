// Package cli implements the command line. Most commands have a separate file.
//
// Commands that show or change notices call the HTTP API, by default at NOTIFIER_URL with NOTIFIER_TOKEN. Some commands
// read the service's own configuration instead:
//
//	serve, routes, reshard, migrate
//	history claim, history settle
//	doctor, without --quick
//	send-test, with the name of a route
//
// The command demo starts a temporary Redis, the service, and HTTP receivers that answer some attempts with errors. The
// delays between attempts are fractions of a second.
//
// The command consume calls the API, and also reads the address of Redis. Exit codes: 0 done, 1 failed, 2 wrong usage
// or configuration.
package cli
