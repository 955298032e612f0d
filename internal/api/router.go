package api

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/wire"
)

// ServeHTTP answers one request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := requestID(r)
	h := w.Header()
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	rec := &recorder{ResponseWriter: w}
	call := &calling{}
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler { // the value the package documents
				panic(v)
			}

			a.log.Error("an API call panicked", zap.String("request_id", id), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
			if rec.status == 0 {
				problem(http.StatusInternalServerError, "this is a defect of the service; its log has the cause under request id %s", id).write(rec)
			}
		}

		a.endSpan(call, rec.status)
		a.observer.Call(call.Name, call.id(), rec.status, time.Since(began))
		if ce := a.log.Check(a.logCalls.level(call), "api call"); ce != nil {
			fields := []zap.Field{zap.String("request_id", id), zap.String("method", r.Method),
				zap.String("path", codec.Clip(r.URL.EscapedPath(), 300)),
				zap.Int("status", rec.status), zap.String("client", call.Name), zap.String("address", auth.OriginOf(r).Address),
				zap.String("operation", call.id())}
			if call.key != "" {
				fields = append(fields, zap.String("key", codec.Clip(call.key, 300)))
			}

			if call.count > 0 {
				fields = append(fields, zap.Int("count", call.count))
			}

			ce.Write(append(fields, zap.Duration("took", time.Since(began)), zap.Int64("bytes", rec.n))...)
		}
	}()
	if err := a.answer(rec, r, call); err != nil {
		p := a.failure(r.Context(), err)
		if at := wire.NodeOf(err); at != "" && call.Prefix == "" && errors.Is(err, wire.ErrUnavailable) {
			p.Detail = "Redis node " + at + ": " + p.Detail
		}

		p.write(rec)
	}
}

// answer serves the request. It sets call once it is known.
func (a *api) answer(w http.ResponseWriter, r *http.Request, call *calling) error {
	if len(r.RequestURI) > maxTarget {
		return problem(http.StatusRequestURITooLong, "the address has %d bytes, at most %d are allowed", len(r.RequestURI), maxTarget)
	}

	found, param, allow := a.find(r.Method, r.URL.EscapedPath())
	switch {
	case found == nil && allow == nil:
		// Without a valid token, an unknown path gets 401 instead of 404.
		if _, p := a.admit(r); p != nil {
			return p
		}
		return wrongPath(r.URL.EscapedPath())
	case found == nil:
		h := strings.Join(allow, ", ")
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", h)
			w.WriteHeader(http.StatusNoContent)
			return nil
		}

		return problem(http.StatusMethodNotAllowed, "%s is not served here; want %s", codec.Clip(r.Method, 20), h).with("Allow", h)
	}

	call.op = found
	if strings.HasPrefix(found.path, "/v1/notices/{key}") || strings.HasPrefix(found.path, "/v1/recurrences/{key}") {
		call.key = param
	}

	if found.role != auth.Public {
		c, p := a.admit(r)
		if p != nil {
			return p
		}

		call.caller = c
		if wait, ok := a.meter.Admit(c.Name, time.Now()); !ok {
			return tooFast(c.Name, wait)
		}

		call.admitted = true
		if !c.Role.Includes(found.role) {
			return problem(http.StatusForbidden, "client %s has the role %s, and this call needs %s", c.Name, c.Role, found.role)
		}
	}

	if err := negotiate(r, found); err != nil {
		return err
	}

	body, err := a.memory.open(r, call.Name, a.maxBatch)
	if err != nil {
		return err
	}

	defer func() {
		a.meter.ChargeBytes(call.Name, body.read, time.Now())
		body.release()
	}()
	defer func() { a.noteOpened(r, call) }()
	return found.serve(w, a.beginSpan(r, call), site{caller: call.caller, call: call, param: param})
}

// find returns the operation for a method and an escaped path, and the decoded value of the path's parameter. If the
// path exists but not with this method, found is nil and allow lists the methods of the path.
func (a *api) find(method, escaped string) (found *operation, param string, allow []string) {
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	if method == http.MethodHead {
		method = http.MethodGet
	}

	for i := range a.tree {
		op := &a.tree[i]
		p, ok := op.match(segments)
		if !ok {
			continue
		}
		if op.method == method {
			return op, p, nil
		}

		if allow = append(allow, op.method); op.method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}

	slices.Sort(allow)
	return nil, "", slices.Compact(allow)
}

func (o *operation) match(segments []string) (param string, ok bool) {
	if len(segments) != len(o.segments) {
		return "", false
	}

	for i, want := range o.segments {
		got, err := url.PathUnescape(segments[i])
		if err != nil {
			return "", false
		}

		if strings.HasPrefix(want, "{") {
			if got == "" {
				return "", false
			}
			param = got
		} else if got != want {
			return "", false
		}
	}

	return param, true
}

// negotiate checks the request's Accept, Content-Encoding and Content-Type headers.
func negotiate(r *http.Request, op *operation) error {
	want := []string{"application/json"}
	if op.ndjson {
		want = append(want, ndjsonType)
	}

	if !op.raw() && !accepts(r, want...) {
		return problem(http.StatusNotAcceptable, "this call answers with %s and problems with application/problem+json; "+
			"the Accept header takes none of them", strings.Join(want, " or "))
	}

	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return problem(http.StatusUnsupportedMediaType, "Content-Encoding %q is not read; send the body as it is", codec.Clip(enc, 40)).
			with("Accept-Encoding", "identity")
	}

	if op.body == nil {
		return nil
	}

	ct := r.Header.Get("Content-Type")
	if ct == "" {
		return nil
	}

	refused := problem(http.StatusUnsupportedMediaType, "Content-Type %q is not read; send %s", codec.Clip(ct, 100),
		strings.Join(want, " or "))
	base, params, err := mime.ParseMediaType(ct)
	if err != nil {
		return refused
	}
	if cs := params["charset"]; cs != "" && !strings.EqualFold(cs, "utf-8") && !strings.EqualFold(cs, "us-ascii") {
		return refused
	}

	switch {
	case base == "application/json", strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json"),
		base == "application/x-www-form-urlencoded": // what curl -d says of JSON
		return nil
	case op.ndjson && isNDJSON(base):
		return nil
	}

	return refused
}

const ndjsonType = "application/x-ndjson"

func isNDJSON(base string) bool {
	switch base {
	case ndjsonType, "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines":
		return true
	}
	return false
}

// accepts reports whether the Accept headers take one of the types.
func accepts(r *http.Request, types ...string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}

	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			base, params, err := mime.ParseMediaType(part)
			if err != nil || strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
				continue
			}
			if base == "*/*" || base == "application/*" || slices.Contains(types, base) {
				return true
			}
		}
	}

	return len(strings.TrimSpace(strings.Join(values, ""))) == 0
}

// requestID is the caller's, if it is one that may be logged, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:/+=@", c))
	}) {
		return id
	}

	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails, says its doc
	return hex.EncodeToString(b[:])
}

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter
	status int
	n      int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}

	n, err := r.ResponseWriter.Write(b)
	r.n += int64(n)
	return n, err
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
