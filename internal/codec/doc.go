// Package codec encodes and decodes notices as JSON.
//
// Each use has one type: [Notice] for the API, [Ending] for the history, [Snapshot] for downloads, imports and
// restores, [Request] for schedule calls, and [Entry] for lists and streams. [Append] encodes any of these types;
// [Read] and [Parse] decode them. The struct tags also define the descriptions and the accepted values in
// openapi.json. Records in Redis have another form; see package notice.
//
// All functions are safe for concurrent use.
package codec
