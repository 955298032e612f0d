package ui

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// liveTimeout is how long a browser may take to read what it is sent; liveBeat is
// how often something is sent although nothing has changed, so that either side
// notices when the other has gone.
const (
	liveTimeout = 10 * time.Second
	liveBeat    = 15 * time.Second
	// recheckEvery is how often it is asked whether the visitor is still let in: some
	// commands to Redis for each dashboard.
	recheckEvery = 30 * time.Second
	// maxStreams bounds how many dashboards are live at one instance; further ones
	// stand still, and say so.
	maxStreams = 500
)

// livePages are the pages with blocks that change by themselves, in the order in
// which they stand there. Each is a template of the page's file, named block-…,
// around one element with an id.
var livePages = map[string][]string{
	"now":       {"status", "matters", "routes", "charts", "service"},
	"receivers": {"status", "hosts", "rates"},
}

// dataOf is what a live page shows of a board.
func (p *Pages) dataOf(page string, b *board, v Visitor) any {
	if page == "now" {
		return p.nowOf(b, v)
	}
	return p.receiversOf(b, v)
}

// feed is a stream of server-sent events to one browser.
type feed struct {
	p       *Pages
	r       *http.Request
	visitor Visitor
	send    func(text string) error
	beat    *time.Ticker
	recheck time.Time
	sent    map[string][]byte // by the name of the block
}

// open begins a stream; it is to be closed.
func (p *Pages) open(w http.ResponseWriter, r *http.Request, v Visitor) (*feed, error) {
	if p.streams.Add(1) > maxStreams {
		p.streams.Add(-1)
		return nil, failure{http.StatusServiceUnavailable, "Too many dashboards are open at this instance; reload the page to see what is new."}
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects the stream would hold it up
	control := http.NewResponseController(w)
	f := &feed{p: p, r: r, visitor: v, beat: time.NewTicker(liveBeat), recheck: time.Now().Add(recheckEvery), sent: map[string][]byte{}}
	f.send = func(text string) error {
		if err := control.SetWriteDeadline(time.Now().Add(liveTimeout)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return control.Flush()
	}
	return f, nil
}

func (f *feed) close() {
	f.beat.Stop()
	f.p.streams.Add(-1)
}

// stands reports whether the visitor is still let in, which is asked now and then:
// whoever has signed out meanwhile, or whose link has ended, sees no more.
func (f *feed) stands() bool {
	if time.Now().Before(f.recheck) {
		return true
	}
	f.recheck = time.Now().Add(recheckEvery)
	return f.p.stands(f.r, f.visitor)
}

// wait waits until the page is to be read again; false if the stream is to end.
func (f *feed) wait(pace time.Duration) bool {
	for again := time.After(pace); ; {
		select {
		case <-f.r.Context().Done():
			return false
		case <-f.p.closing:
			return false
		case <-f.beat.C:
			if f.send(stillHere) != nil {
				return false
			}
		case <-again:
			return f.stands()
		}
	}
}

// tell sends the blocks that have changed.
func (f *feed) tell(blocks []block) error {
	var news strings.Builder
	for _, block := range blocks {
		if !bytes.Equal(f.sent[block.name], block.text) {
			f.sent[block.name] = block.text
			news.WriteString(event(bytes.ReplaceAll(block.text, []byte(csrfHere), []byte(template.HTMLEscapeString(f.visitor.CSRF)))))
		}
	}
	if news.Len() == 0 {
		return nil
	}
	return f.send(news.String())
}

// again are the first words of a stream: after how many ms a browser that has lost it
// comes again.
const again = "retry: 3000\n\n"

// stillHere is what is sent where nothing has changed.
const stillHere = ": still here\n\n"

// showLive serves a stream of server-sent events: the part of a page as it is now,
// whenever it has changed.
func (p *Pages) showLive(w http.ResponseWriter, r *http.Request, v Visitor) error {
	name := r.PathValue("page")
	if livePages[name] == nil {
		return failure{http.StatusNotFound, "There is no such page."}
	}
	f, err := p.open(w, r, v)
	if err != nil {
		return err
	}
	defer f.close()
	if f.send(again) != nil {
		return nil
	}
	boards, leave := p.sampler.watch()
	defer leave()
	for {
		var b *board
		select {
		case <-r.Context().Done():
			return nil
		case <-p.closing:
			return nil
		case <-f.beat.C:
			if f.send(stillHere) != nil {
				return nil
			}
			continue
		case b = <-boards:
		}
		if !f.stands() {
			return nil
		}
		blocks, err := p.blocks(name, b, v)
		if err != nil {
			p.log.Error("a live page could not be rendered", zap.String("page", name), zap.Error(err))
			return nil
		}
		if f.tell(blocks) != nil {
			return nil
		}
	}
}

// csrfHere is the placeholder of a visitor's CSRF token in blocks, which are rendered
// once for all visitors of a scope. It is random: text of a notice that contains it
// would be replaced by the token.
var csrfHere = rand.Text()

type block struct {
	name string
	text []byte
}

// rendered are the blocks of one board, by page and scope.
type rendered struct {
	mu     sync.Mutex
	board  *board
	blocks map[string][]block
}

// blocks renders those of a page, once for all who may see the same.
func (p *Pages) blocks(page string, b *board, v Visitor) ([]block, error) {
	p.rendered.mu.Lock()
	defer p.rendered.mu.Unlock()
	if p.rendered.board != b {
		p.rendered.board, p.rendered.blocks = b, map[string][]block{}
	}
	id := page + " " + v.scope()
	if list := p.rendered.blocks[id]; list != nil {
		return list, nil
	}
	v.CSRF = csrfHere
	list, err := p.blocksOf(page, livePages[page], view{Visitor: v, Data: p.dataOf(page, b, v)})
	if err == nil {
		p.rendered.blocks[id] = list
	}
	return list, err
}

// blocksOf renders blocks of a page.
func (p *Pages) blocksOf(page string, names []string, shown view) ([]block, error) {
	var list []block
	for _, name := range names {
		var text bytes.Buffer
		if err := p.look.pages[page].ExecuteTemplate(&text, "block-"+name, shown); err != nil {
			return nil, err
		}
		list = append(list, block{name, clean(text.Bytes())})
	}
	return list, nil
}

// event is a server-sent event with that text.
func event(text []byte) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/10)
	b.WriteString("event: block\n")
	for line := range strings.Lines(string(text)) {
		b.WriteString("data: ")
		b.WriteString(strings.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.String()
}
