// Package apitest holds an engine in memory for tests of the API and of what
// speaks to it. It keeps the semantics of the real one, on which the tests of
// what the API promises run as well, and delivers nothing: tests move notices on
// with its methods.
package apitest
