// Package enginetest runs the real engine on a separate Redis database, for tests of the API, the
// command line and the pages.
//
// The engine has no slots, so it claims no notices by itself. A test changes their state with the
// methods of [Engine], which run the same scripts as a delivery.
package enginetest
