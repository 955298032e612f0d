//go:build quick

package engine

const withPostgres = false
