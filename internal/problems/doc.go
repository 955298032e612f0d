// Package problems decides which problems the service has at the moment: what is late, failing or refused, since when, of which cause,
// and what to do. The page Now, GET /v1/problems and the command `notifier problems` show its answers, so that all of them say the
// same words.
//
// [Find] reads nothing: it works on a sample of the figures (package sampler), and tells a reader only of routes and receivers within
// its prefix. A problem of the service as a whole is for readers without a prefix.
package problems
