//go:build quick

package history

const withPostgres = false
