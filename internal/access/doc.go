// Package access decides who may call the API, which keys a client sees, and how much it may do.
//
// [Clients] maps a token to a [Caller], whose role allows calls and pages, and whose prefix limits the keys. The API
// and the pages use the same rules. [Meter] limits the requests of each client, [Anonymous] the calls without a token,
// and [Failures] attempts with a wrong token. All limits are for one instance.
package access
