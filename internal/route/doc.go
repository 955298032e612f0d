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
//
// # Messages for teams
//
// A route can deliver messages to the group chat of a team: DingTalk, Feishu (Lark), WeCom, Slack and Teams. [Robot] knows
// the formats: how a message is written, how an attempt is signed, and which answer acknowledges it. Formats that have a
// plain text element get the texts of receivers and producers in it, the others get them escaped, so that a text never
// becomes markup or a mention. Control and direction characters become spaces.
package route
