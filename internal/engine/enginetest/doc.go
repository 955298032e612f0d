// Package enginetest runs the real engine on a separate Redis database, for tests of the API, the command line and the
// pages.
//
// The engine claims no notices for delivery by itself. A test changes their state with methods of [Engine]. For
// example, Move makes a notice delivered or dead, by the same scripts as a delivery.
package enginetest
