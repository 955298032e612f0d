// Package postgres lets package history store finalized notices in PostgreSQL. A program that imports it can open
// addresses postgres://… and postgresql://….
package postgres
