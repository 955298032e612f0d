package apidocs

import "net/http"

// Addresses of the page and of its style sheet.
const (
	Path      = "/docs"
	StylePath = "/docs/style.css"
)

// Policy is the Content-Security-Policy of the page, which allows only its style sheet.
const Policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Docs is the rendered page of an OpenAPI document. Its methods may be called concurrently.
type Docs struct{ page []byte }

// New renders an OpenAPI document, which is JSON.
func New(document []byte) (*Docs, error) {
	page, err := render(document)
	if err != nil {
		return nil, err
	}

	return &Docs{page: page}, nil
}

// Page answers GET Path.
func (d *Docs) Page(w http.ResponseWriter) { write(w, "text/html; charset=utf-8", d.page) }

// Style answers GET StylePath.
func (d *Docs) Style(w http.ResponseWriter) { write(w, "text/css; charset=utf-8", style) }

func write(w http.ResponseWriter, mime string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", mime)
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(text) // the client may have disconnected
}
