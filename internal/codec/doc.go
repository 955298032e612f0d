// Package codec encodes and decodes notices as JSON.
//
// Each use has one type: [Notice] for the API, [Ending] for the history, [Snapshot] for downloads, imports and
// restores, [Request] for schedule calls, and [Entry] for lists and streams. The struct tags define the names of
// fields, their descriptions in openapi.json and the accepted values. [Append] encodes any of these types; [Read] and
// [Parse] decode them. Records in Redis have another form; see package notice.
//
// All functions are safe for concurrent use.
package codec
