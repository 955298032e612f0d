// Package demo demonstrates the service on a machine without any other software.
//
// It starts a temporary Redis, the service, and HTTP receivers that answer some attempts with errors. There are two
// demonstrations:
//   - [Run] schedules a few notices, prints each attempt, and ends after about three seconds. The delays between
//     attempts are fractions of a second.
//   - [Keep] schedules notices until it is interrupted. The dashboard shows them.
package demo
