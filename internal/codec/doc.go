// Package codec encodes and decodes notices as JSON, in the forms in which other programs see them.
//
// There is one type for each use:
//   - [Notice] for answers of the API
//   - [Ending] for entries of the history, the database of finalized notices
//   - [Snapshot] for downloads, imports and restores
//   - [Request] for schedule calls
//   - [Entry] for notices that are pushed to Redis lists
//
// [Append] encodes any of these types; [Read] and [Parse] decode them. The struct tags of the types also define the
// descriptions and the accepted values in openapi.json. The records of notices in Redis have another form; see package
// notice.
//
// All functions are safe for concurrent use.
package codec
