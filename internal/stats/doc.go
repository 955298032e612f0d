// Package stats has the figures that an instance gives of itself: counts of its work, the values of a moment that
// metrics and pages show, and whether it is ready.
package stats
