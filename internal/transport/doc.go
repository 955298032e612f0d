// Package transport sends an HTTP request and reads its answer. It has its own HTTP/1.1 client. HTTP/2 is that of
// net/http, used if a TLS handshake negotiates it. It follows no redirects, keeps no cookies and decodes no bodies. It
// imports no other package of the service.
//
// # Duplicates
//
// A request that was sent in full may have been processed, whatever the error. Sending it again may be a second
// delivery. After [Pool.Do], [Progress.Stage] returns how much of the request the last connection has carried:
//
//   - Before [StageSend], nothing.
//   - At StageSend, a part, or over HTTP/2 maybe all of it.
//   - Later, all of it, or an answer came before its end.
//
// Do itself repeats only requests that the receiver cannot have processed, on another connection:
//
//   - A kept HTTP/1.1 connection failed before the kernel had taken the last byte.
//   - The receiver refused an HTTP/2 stream, or ended the connection with a GOAWAY that excludes the stream.
//
// Do never sends more than [MaxRequests] requests with the same [Progress]. Exchange.Repeats can forbid the second one.
//
// # HTTP/1.1
//
// The request has a request line, Host, User-Agent, Content-Length and the given headers in their order and spelling.
// Its body is never chunked. The caller must have refused control characters: the package writes all parts unchanged.
//
// net/http parses the answer, which may be HTTP/1.0 or 1.1 and chunked. Answers of 1xx before it are skipped. These
// answers are special:
//
//   - A head of more than [MaxHead] bytes is an error, 1xx answers included.
//   - Of a longer body, [MaxBody] bytes are read. Answer.More is set, and the connection is closed.
//   - Answer.BodyErr is set if the body is incomplete. Status and headers are valid.
//   - The stream after an answer of 101 is not read.
//
// # Deadlines
//
// Exchange.Deadline bounds the exchange from the lookup of the name to the last byte of the body. The end of the
// context interrupts it at once, in any step. A process that was stopped at the deadline reads an answer that has
// already arrived. Options.Dial and Options.TLSTimeout may bound their steps further.
//
// # Kept connections
//
// An HTTP/1.1 connection carries one exchange at a time. It is kept if request and answer are complete, nothing
// follows the answer, the receiver did not announce its end, the context has not ended, and its host has fewer than
// Options.PerHost. It is then closed
//
//   - up to a second before the timeout in the receiver's Keep-Alive header, at the latest after [MaxIdle],
//   - without such a header after Options.Idle,
//   - earlier if the receiver has closed connections earlier,
//   - above Options.Total, the least recently used one first,
//   - if lookups of the host's name no longer return its address.
//
// On Unix, a connection that the receiver has closed is found before the request is written.
//
// # Concurrency and memory
//
// A [Pool] is safe for concurrent use. An exchange runs in the goroutine of its caller. Only a body of more than 16 KiB
// is written by another goroutine, which ends before Do returns. Goroutines of Options.Dial may end later.
//
// While an exchange without TLS waits for its answer, on Unix it holds no buffer, unless its body is longer than 16 KiB.
// An answer takes at most MaxHead and MaxBody bytes, and 4 KiB to read it. Options.Total bounds the idle connections, and
// a table of 16,384 entries the hosts that are known.
//
// # Why not net/http
//
// net/http passes each call between three goroutines, and repeats a GET or a request with an Idempotency-Key by itself.
// This client saved 33 µs of processor time a call, 52 instead of 85 µs. A waiting call held 18.5 kB instead of 168. These
// figures are of the benchmark callbacks, when the client replaced net/http for HTTP/1.1.
package transport
