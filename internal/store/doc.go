// Package store speaks to Redis: the connection, the scripts in lua/, and one
// Go function for each script.
package store
