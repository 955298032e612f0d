// Package problems finds the current problems of the service: late notices, deaths, failing receivers, refused calls. Each has its
// cause, its beginning and its remedy. The page Now, GET /v1/problems and the command `notifier problems` show the same list in the
// same words.
//
// [Find] reads nothing: it works on a sample of the figures ([Sampler]), and leaves out routes and receivers outside the
// reader's prefix. A problem of the service as a whole is for readers without a prefix.
//
// # Sampling
//
// A [Sampler] reads the figures of the dashboard and of the problems: counts, heartbeats, minutes, deaths, and the health
// of receivers. All pages and calls of an instance share one sample ([Board]), so that their cost does not grow with the
// number of readers.
//
// A sample is at most two seconds old. Expensive parts are read less often, within budgets of commands per second, and each
// part of a Board has the time at which it was read. Parts that cannot be read keep their old values.
//
// # Texts
//
// A [Text] is a message that people read, with its arguments, before it is put into a language. The dashboard translates
// it; the API and the command line write it in English. So all of them say the same words.
package problems
