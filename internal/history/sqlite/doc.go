// Package sqlite lets package history store finalized notices in a SQLite file. A program that imports it can open
// addresses sqlite:///path.
package sqlite
