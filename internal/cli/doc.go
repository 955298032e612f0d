// Package cli is the command line, with one file for each command.
//
// Commands that show or change notices call the HTTP API, configured by NOTIFIER_URL and NOTIFIER_TOKEN. serve, doctor,
// routes, send-test, reshard, migrate and history read the service's own environment; consume reads both. Errors name
// flags, arguments and variables, not the JSON members behind them. Exit codes: 0 done, 1 failed, 2 wrong usage or
// configuration.
package cli
