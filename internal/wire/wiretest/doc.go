// Package wiretest makes clients of package wire for tests.
package wiretest
