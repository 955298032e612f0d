// Package timespec parses times as people write them, in a time zone, such as 14:00, today 14:00, yesterday,
// 14:00+08:00, 2026-11-22 09:30, or RFC 3339.
//
// A time of day without a date means its last or its next occurrence; the caller chooses which. If a change of daylight
// saving time skips or repeats a time, Parse returns an error. A time of day with an offset, as in 02:30+02:00, is
// never ambiguous.
package timespec
