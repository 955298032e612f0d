// Package search finds notices by one line of text, in Redis and in the history. The API, the command line and the pages
// use it, so a line means the same in each of them.
package search
