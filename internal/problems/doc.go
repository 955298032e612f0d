// Package problems finds the current problems of the service: late notices, deaths, failing receivers, refused calls. Each has its
// cause, its beginning and its remedy. The page Now, GET /v1/problems and the command `notifier problems` show the same list in the
// same words.
//
// [Find] reads nothing: it works on a sample of the figures (package sampler), and leaves out routes and receivers outside the
// reader's prefix. A problem of the service as a whole is for readers without a prefix.
package problems
