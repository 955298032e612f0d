package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/a-h/templ"
)

//go:embed assets
var embedded embed.FS

// assetsPath is the address of scripts and styles. Their names contain a hash of the content, so that
// browsers may cache them forever.
const assetsPath = Root + "assets/"

// look holds the scripts and styles.
type look struct {
	assets map[string]asset  // by the name with the hash
	hashed map[string]string // from the plain name to the path
}

type asset struct {
	contentType string
	data        []byte
}

// contentTypes are the content types of assets by extension. Package mime would read the machine's
// tables, 2 MB of memory, for three types.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// embeddedLook is the look of all Pages. The commands that serve no page do not hash the files.
var embeddedLook = sync.OnceValue(newLook)

// newLook reads the embedded files.
func newLook() *look {
	l := &look{assets: map[string]asset{}, hashed: map[string]string{}}
	for name, data := range files("assets") {
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		l.assets[hashed] = asset{contentTypes[ext], data}
		l.hashed[name] = assetsPath + hashed
	}

	return l
}

func files(dir string) map[string][]byte {
	out := map[string][]byte{}
	list, err := fs.ReadDir(embedded, dir)
	if err != nil {
		panic("ui: " + err.Error())
	}

	for _, f := range list {
		if out[f.Name()], err = fs.ReadFile(embedded, dir+"/"+f.Name()); err != nil {
			panic("ui: " + err.Error())
		}
	}

	return out
}

// assetPath returns the address of a script or style, for templates.
func assetPath(name string) (string, error) {
	if p := embeddedLook().hashed[name]; p != "" {
		return p, nil
	}
	return "", fmt.Errorf("no asset is named %q", name)
}

func (l *look) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := l.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}

	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.data)))
	_, _ = w.Write(a.data) // the browser may have disconnected
}

// view is the data of the layout.
type view struct {
	Title   text
	Section text // the page of the navigation that it belongs to; nil = the title
	Visitor Visitor
	Live    string          // the name of the stream under /ui/live/; empty = none
	Content templ.Component // below the title
	Box     string          // the line of the search
	Finds   bool            // the line has the focus at first
	// Bare pages have no navigation: the visitor is not signed in yet.
	Bare bool
	// Refresh is the address that the browser opens next; empty for none.
	Refresh string
	// Retry is the number of seconds after which the browser reloads the page; 0 for never.
	Retry int
	// Set by render. Here is the path of the page.
	Here      string
	Nav       []navItem
	Languages []switchItem
	Version   string
	Said      said
}

type navItem struct {
	Path    string
	Name    text
	Here    bool
	all     bool // only for visitors who see all notices
	wide    bool // not for visitors with a portal link
	archive bool // only with a history
	recurs  bool // only with recurring notices
}

// screens are the pages of the navigation, in order.
var screens = []navItem{
	{Path: Root, Name: say("nav|Now"), wide: true},
	{Path: Root + "notices", Name: say("Notices")},
	{Path: Root + "history", Name: say("History"), wide: true, archive: true},
	{Path: Root + "dead", Name: say("Dead letters")},
	{Path: Root + "receivers", Name: say("Receivers"), wide: true},
	{Path: Root + "replays", Name: say("Replays"), wide: true, archive: true},
	{Path: Root + "report", Name: say("Report"), wide: true, archive: true},
	{Path: Root + "recurrences", Name: say("Recurrences"), wide: true, recurs: true},
	{Path: Root + "routes", Name: say("Routes"), wide: true},
	{Path: Root + "doctor", Name: say("Doctor"), all: true},
	{Path: Root + "audit", Name: say("Audit"), wide: true},
}

func (p *Pages) navOf(v Visitor, section text) []navItem {
	var out []navItem
	for _, s := range screens {
		if s.all && !v.All() || s.wide && v.Linked() || s.archive && p.o.History == nil || s.recurs && p.o.Recurrences == nil {
			continue
		}

		s.Here = s.Name[0] == section[0]
		out = append(out, s)
	}

	return out
}

// render returns the HTML of a template in the language. It renders into memory, so that an error leaves no
// half page.
func (l *language) render(c templ.Component) ([]byte, error) {
	var b bytes.Buffer
	if err := c.Render(context.WithValue(context.Background(), languageKey{}, l), &b); err != nil {
		return nil, err
	}

	return clean(b.Bytes()), nil
}

// render answers with a page.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, status int, v view) error {
	lang := languageOf(r)
	v.Version, v.Said, v.Here, v.Languages = p.o.Version, saidOf(r), r.URL.EscapedPath(), switches(r, lang)
	if !v.Bare {
		section := v.Section
		if section == nil {
			section = v.Title
		}

		v.Nav = p.navOf(v.Visitor, section)
	}

	page, err := lang.render(document(v))
	if err != nil {
		return err
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Language", lang.Tag)
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(status)
	_, _ = w.Write(page) // the browser may have disconnected
	return nil
}
