package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"notifier/internal/codec"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// cursors encrypts and decrypts the cursors of one listing. A cursor contains the position of the next page and the
// last key that was read, which the client may have no right to see. It is valid only for the same client and query.
type cursors struct {
	api   *api
	bound []byte
}

func (a *api) cursors(operation string, at site, query url.Values) cursors {
	rest := maps.Clone(query)
	delete(rest, "cursor")
	delete(rest, "limit")
	return cursors{a, []byte(strings.Join([]string{operation, at.param, at.Name, at.Prefix, rest.Encode()}, "\n"))}
}

// seal makes of the store's cursor one to hand out; an empty one stays so.
func (c cursors) seal(ctx context.Context, inner string) (string, error) {
	outer, err := c.api.keys.Seal(ctx, wire.ForCursors, inner, c.bound)
	return outer, c.explain(err)
}

// writePage completes a page, to whose out the items were appended, and writes it. It adds the cursor of
// the next page and the nodes that did not answer.
func (c cursors) writePage(w http.ResponseWriter, r *http.Request, out []byte, inner string, missing []string) error {
	cursor, err := c.seal(r.Context(), inner)
	if err != nil {
		return err
	}

	out = append(out, ']')
	if cursor != "" {
		out = codec.AppendAny(append(out, `,"cursor":`...), cursor)
	}

	if len(missing) > 0 {
		out = codec.AppendAny(append(out, `,"missing":`...), missing)
	}

	return writeRaw(w, http.StatusOK, "application/json", append(out, '}', '\n'))
}

// open is the inverse of seal. It returns store.ErrCursor for a cursor of another client, another query
// or another version.
func (c cursors) open(ctx context.Context, outer string) (string, error) {
	inner, err := c.api.keys.Open(ctx, wire.ForCursors, outer, c.bound)
	if errors.Is(err, wire.ErrForeignSeal) {
		return "", store.ErrCursor
	}

	return inner, c.explain(err)
}

// explain returns the problem that answers an unreadable sealing key.
func (c cursors) explain(err error) error {
	if !errors.Is(err, wire.ErrKeyUnreadable) {
		return err
	}

	c.api.log.Warn("listings of more than a page are refused", zap.Error(err))
	return problem(http.StatusServiceUnavailable, "the key that cursors are sealed with cannot be read at the moment; "+
		"what fits one page is listed, and all else goes on. Repeat the call").with("Retry-After", "1")
}

// badCursor is the answer to store.ErrCursor.
func badCursor() *Problem {
	const rule = "is not a cursor of this listing for this client, or of another version of the service; begin again without one"
	p := problem(http.StatusBadRequest, "query.cursor: %s", rule)
	p.Errors = []codec.Wrong{{Location: "query.cursor", Message: rule}}
	return p
}
