// Package config reads the service's configuration from environment variables into a [Config].
//
// [Load] checks all variables and returns one error of type [Errors]. The error lists every wrong, missing and unknown
// NOTIFIER_* variable with an acceptable value, and never contains a secret. Combinations that cannot work are errors
// too, so that the service fails at start and not later. Two examples are an API that the network can reach without
// configured clients, and two routes with one prefix.
//
// The tables in vars.go define every variable, its default and its description. docs/configuration.md is generated from
// them.
package config

//go:generate go run ../tools/configdoc ../../docs/configuration.md
