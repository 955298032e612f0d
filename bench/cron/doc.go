// Package cron compares the ticks of package recur with those of two cron libraries.
package cron
