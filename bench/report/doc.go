// Package report turns a run's cells into tables and plots.
package report
