// Package config reads the environment into a [Config].
//
// Everything is checked at once: Load reports each wrong, missing and unknown
// NOTIFIER_* variable in one error, with what would be right, and never with a
// secret. A setting that could not be kept at run time (a listener open to the
// network without clients, two routes on one prefix) is refused here, at start.
package config

//go:generate go run ../tools/configdoc ../../docs/configuration.md
