// Package secrettest is the one check of every package's tests that no secret
// reaches a log, an error or an answer.
package secrettest
