// Package cli implements the command line, with one file for each command.
//
// Commands that show or change notices call the HTTP API at NOTIFIER_URL with NOTIFIER_TOKEN. The commands serve,
// doctor, routes, send-test, reshard, migrate and history read the service's own configuration instead; consume reads
// both. Errors name flags, arguments and variables. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.
package cli
