// Package route contains the routes. A route is the configuration for all notices (delayed callbacks) whose keys begin
// with one prefix: where they are delivered, how often they are retried, and which limits apply.
//
// A key belongs to the route with the longest prefix that matches. [Table.Match] looks for prefixes of one, two or
// three segments:
//
//	key     app:module:type:id
//	tried   app:module:type, then app:module, then app
//
// # Urls of producers
//
// A route may let each notice have its own url. The producer (the client that schedules the notice) chooses the url, so
// it is not trusted. Package callback calls these methods:
//
//   - [Route.CheckTarget] checks the url.
//   - [Route.CheckAddr] checks an address to which its host resolves.
//   - [Route.CheckHeaders] checks whether its scheme and port fit the route's headers.
package route
