// Package config reads the service's configuration from environment variables into a [Config].
//
// Load checks all variables before it returns. One error of type [Errors] lists every wrong, missing and unknown
// NOTIFIER_* variable with an acceptable value, and never contains a secret. Combinations that could not work at run
// time are errors too, so the service fails at start: an API that the network can reach without clients, or two routes
// with one prefix.
//
// The tables in vars.go define every variable, its default and its description. docs/configuration.md is generated from
// them.
package config

//go:generate go run ../tools/configdoc ../../docs/configuration.md
