// Package codec writes and reads notices as JSON. Each form has one type: Notice (the API), Ending (the history),
// Snapshot (downloads, imports and restores), Request (schedule calls) and Entry (lists and streams). A type's tags
// name its members, describe them for the API's document and say what they accept. [Append] writes any of these
// types; [Read] and [Parse] read them. Package notice writes the record in Redis, in another form.
//
// All functions may be called concurrently.
package codec
