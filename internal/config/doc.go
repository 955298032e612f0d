// Package config reads the service's configuration from environment variables into a [Config].
//
// [Load] returns one error of type [Errors]. It lists every wrong, missing and unknown NOTIFIER_* variable with an
// acceptable value, and never contains a secret. Combinations that cannot work are errors too, such as two routes with
// one prefix, or an API that the network can reach without configured clients.
//
// The tables in vars.go define every variable, its default and its description. docs/configuration.md is generated
// from them.
package config

//go:generate go run ../tools/configdoc ../../docs/configuration.md
