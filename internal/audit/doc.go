// Package audit is the record of who changed what, when: the calls of operators,
// by the API or the pages, and not what producers and consumers do all day, which
// is schedules and reports.
//
// Entries are kept in Redis, in a stream that is capped at about 10,000 of them.
// An entry is written after the call that it tells of, and before that is
// answered. A call does not fail because its entry cannot be written: then the
// log has it, and a warning beside it.
//
// A caller with a prefix sees the entries whose keys all lie under it, and no
// other. A caller without a prefix that is not an admin sees its own; see [Entry.VisibleTo].
package audit
