// Package codec reads and writes notices as JSON.
//
// Each form has one type: [Notice] for the API, [Ending] for the history, [Snapshot] for downloads, imports and
// restores, [Request] for schedule calls, and [Entry] for lists and streams. A type's tags define the names of its
// members, their descriptions in openapi.json and the accepted values. [Append] writes any of these types; [Read] and
// [Parse] read them. The record in Redis has another form, see package notice.
//
// All functions may be called concurrently.
package codec
