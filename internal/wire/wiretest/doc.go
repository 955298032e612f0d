// Package wiretest makes clients of package wire for tests.
//
// They are apart from package testkit, because the tests of package wire use that one.
package wiretest
