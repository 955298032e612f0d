package api

import "net/http"

// Addresses of the page for people and of its style sheet.
const (
	docsPath      = "/docs"
	docsStylePath = "/docs/style.css"
)

// docsPolicy is the Content-Security-Policy of the page, which allows only its style sheet.
const docsPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsPage is the rendered page of an OpenAPI document. Its methods may be called concurrently.
type docsPage struct{ page []byte }

// newDocs renders an OpenAPI document, which is JSON.
func newDocs(document []byte) (*docsPage, error) {
	page, err := renderDocs(document)
	if err != nil {
		return nil, err
	}

	return &docsPage{page: page}, nil
}

// Page answers GET /docs.
func (d *docsPage) Page(w http.ResponseWriter) { writeDocs(w, "text/html; charset=utf-8", d.page) }

// Style answers GET /docs/style.css.
func (d *docsPage) Style(w http.ResponseWriter) { writeDocs(w, "text/css; charset=utf-8", docsStyle) }

func writeDocs(w http.ResponseWriter, mime string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", mime)
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(text) // the client may have disconnected
}
