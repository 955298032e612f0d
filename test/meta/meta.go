// Package meta holds no code, only the tests of the house rules: what is
// cheaper to check by a machine than to remember.
package meta
