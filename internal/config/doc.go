// Package config reads the service's configuration from environment variables into a [Config].
//
// [Load] reports the problems together, in an error of type [Errors]. The error lists wrong, missing and unknown
// NOTIFIER_* variables with what is wanted instead, and never contains a secret. Combinations that cannot work are
// errors too, such as two routes with the same prefix, or an API that the network can reach without configured clients.
//
// The tables in vars.go define every NOTIFIER_* variable, its default and its description. docs/configuration.md is
// generated from them. [ReadOTel] reads the OTEL_* variables, which say where package
// telemetry exports spans and metrics to.
package config

//go:generate go run ../tools configdoc ../../docs/configuration.md
