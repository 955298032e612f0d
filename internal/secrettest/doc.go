// Package secrettest checks that no secret reaches a log, an error or an answer. The tests of all packages
// use the same check.
package secrettest
