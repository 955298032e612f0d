// Package sampler reads the figures of the dashboard and of the problems: counts, heartbeats, minutes, deaths, and the health of
// receivers. All pages and calls of an instance share one sample ([Board]), so that their cost does not grow with the number of readers.
//
// A sample is at most two seconds old. Expensive parts are read less often, within budgets of commands per second, and each part of a
// Board has the time at which it was read. Parts that cannot be read keep their old values.
package sampler
