package store

import (
	"context"
	"strconv"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Readdress changes the url and the headers of a scheduled or dead notice. f is the stored notice as the caller has
// read it, and n is its new content. when is the new due time of a scheduled notice; nil keeps the old one. If
// Change.Done is false, nothing was changed, usually because the notice has changed or is claimed. Call Find again. The error is
// ErrNoDataKey if the shard does not have the data key of a newly sealed content.
func (s *Store) Readdress(ctx context.Context, f Found, n *notice.Notice, when *When) (Change, error) {
	a := amended{key: n.Key, record: string(AppendRecord(nil, n)), was: f.record}
	if n.Sealed != f.Sealed {
		a.dataKey = dataKeyOf(&n.Content)
	}

	if when != nil {
		a.when = string(when.append(nil))
	}

	return s.amendOne(ctx, keys.Partition{Prefix: n.Route, Shard: f.Shard}, readdress, a)
}

// AppendRecord appends the record of a notice.
func AppendRecord(b []byte, n *notice.Notice) []byte {
	b = strconv.AppendInt(append(b, `{"due":`...), n.Due.UnixMilli(), 10)
	b = strconv.AppendInt(append(b, `,"made":`...), int64(n.Made), 10)
	return n.AppendTail(b)
}
