// Package enginetest runs the real engine on a separate database for tests of the API, the command line and the pages. The
// engine has no slots, so it claims nothing: tests move notices on with the methods of [Engine], which run the scripts
// that a delivery runs.
package enginetest
