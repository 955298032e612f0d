// Package route holds what the configuration says of each key prefix, and
// finds the route of a key: the longest matching prefix wins.
package route
