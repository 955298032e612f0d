package ui

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed assets templates
var embedded embed.FS

// assetsPath is where scripts and styles are. Their names hold a hash of their
// content, so that a browser may keep them for ever.
const assetsPath = Root + "assets/"

// look is what all pages share: templates, scripts and styles.
type look struct {
	pages  map[string]*template.Template
	assets map[string]asset  // by the name with the hash
	hashed map[string]string // from the plain name to the path
}

type asset struct {
	contentType string
	data        []byte
}

// newLook reads what is embedded; what is wrong there is a defect.
func newLook() *look {
	l := &look{pages: map[string]*template.Template{}, assets: map[string]asset{}, hashed: map[string]string{}}
	for name, data := range files("assets") {
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		l.assets[hashed] = asset{mime.TypeByExtension(ext), data}
		l.hashed[name] = assetsPath + hashed
	}
	shared := template.New("").Funcs(template.FuncMap{"asset": l.path, "number": number, "plural": plural, "pairs": pairs, "sub": func(a, b float64) float64 { return a - b }})
	templates := files("templates")
	common := []string{"layout.html", "parts.html"}
	for _, name := range common {
		shared = template.Must(shared.Parse(string(templates[name])))
	}
	for name, data := range templates {
		if !slices.Contains(common, name) {
			l.pages[strings.TrimSuffix(name, ".html")] = template.Must(template.Must(shared.Clone()).Parse(string(data)))
		}
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

// pairs is a map of names and values in turn, for templates that call others.
func pairs(list ...any) (map[string]any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(list); i += 2 {
		name, ok := list[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is no name", list[i])
		}
		out[name] = list[i+1]
	}
	return out, nil
}

// path of a script or style, for templates.
func (l *look) path(name string) (string, error) {
	if p := l.hashed[name]; p != "" {
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
	_, _ = w.Write(a.data) // whoever asked may have gone
}

// view is a page: what the layout's template gets.
type view struct {
	Template string // the name of the template's file
	Title    string
	Section  string // the page of the navigation that it belongs to; empty = itself
	Visitor  Visitor
	Live     string // what follows /ui/live/ in its stream's address; empty = it stands still
	Data     any
	// Bare: a page for who is not let in yet, without navigation.
	Bare bool
	// Refresh, if not empty, is where the browser goes on to by itself.
	Refresh string
	// Retry, if not 0, is after how many seconds the browser loads the page again.
	Retry int
	// Set by render. Here is the page's own path.
	Here    string
	Nav     []navItem
	Version string
	Said    said
}

type navItem struct {
	Path, Name string
	Here       bool
	all        bool // only for who sees everything
	wide       bool // not for who sees only some notices of his prefix
	own        bool // not for who came by a link
	archive    bool // only where there is a history
}

// screens are the pages of the navigation, in order.
var screens = []navItem{
	{Path: Root, Name: "Now", wide: true},
	{Path: Root + "notices", Name: "Notices"},
	{Path: Root + "history", Name: "History", wide: true, archive: true},
	{Path: Root + "dead", Name: "Dead letters"},
	{Path: Root + "receivers", Name: "Receivers", wide: true},
	{Path: Root + "replays", Name: "Replays", wide: true, archive: true},
	{Path: Root + "routes", Name: "Routes", wide: true},
	{Path: Root + "doctor", Name: "Doctor", all: true},
	{Path: Root + "audit", Name: "Audit", own: true},
}

func (p *Pages) navOf(v Visitor, title string) []navItem {
	var out []navItem
	for _, s := range screens {
		if s.all && !v.All() || s.wide && v.Narrow() || s.own && v.Linked() || s.archive && p.o.History == nil {
			continue
		}
		s.Here = s.Name == title
		out = append(out, s)
	}
	return out
}

// render answers with a page.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, status int, v view) error {
	v.Version, v.Said, v.Here = p.o.Version, saidOf(r), r.URL.Path
	if !v.Bare {
		v.Nav = p.navOf(v.Visitor, cmp.Or(v.Section, v.Title))
	}
	t := p.look.pages[v.Template]
	if t == nil {
		return fmt.Errorf("no template is named %q", v.Template)
	}
	// Into memory first: half a page is none.
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "layout", v); err != nil {
		return err
	}
	page := clean(b.Bytes())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(status)
	_, _ = w.Write(page) // whoever asked may have gone
	return nil
}
