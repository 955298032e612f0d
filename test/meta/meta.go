// Package meta tests the rules of this repository that a program can check. It contains only
// tests.
package meta
