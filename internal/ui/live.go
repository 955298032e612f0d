package ui

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
	"go.uber.org/zap"

	"notifier/internal/problems"
)

// liveTimeout limits the time of one write to a browser. liveBeat is the interval of empty events, by
// which each side notices a lost connection.
const (
	liveTimeout = 10 * time.Second
	liveBeat    = 15 * time.Second
	// recheckEvery is the interval of session checks: some commands to Redis per dashboard.
	recheckEvery = 30 * time.Second
	// maxStreams limits the live dashboards of one instance, divided among the clients. Further pages are not live and say so.
	maxStreams = 500
)

// liveBlock is a part of a page that its stream updates: one element, whose id is the name.
type liveBlock struct {
	name    string
	content templ.Component
}

// livePages maps the name of a live page to a function that returns its blocks, in the order of the page. The stream has the
// query of the page.
var livePages = map[string]func(*Pages, *problems.Board, Visitor, url.Values) []liveBlock{
	"now": func(p *Pages, b *problems.Board, v Visitor, q url.Values) []liveBlock {
		page := p.nowOf(b, v)
		page.arrange(sortingOf(Root, q))
		return nowBlocks(page)
	},
	"receivers": func(p *Pages, b *problems.Board, v Visitor, q url.Values) []liveBlock {
		return receiverBlocks(p.receiversOf(b, v, receiverFilterOf(q)))
	},
}

func nowBlocks(d nowPage) []liveBlock {
	first := liveBlock{"first", nowFirst(d)}
	if d.Empty && d.First.Command == "" { // a stream of an empty system: the address is that of the page, which stays
		first.name = ""
	}

	blocks := []liveBlock{{"status", nowStatus(d)}, {"matters", nowProblems(d)}, first, {"routes", nowRoutes(d)},
		sampled("routes", d.CountsAt),
		{"charts", nowCharts(d)}, sampled("charts", d.ComingAt), {"service", nowService(d)}, sampled("service", d.InstancesAt)}
	return slices.DeleteFunc(blocks, func(b liveBlock) bool { return b.name == "" })
}

func receiverBlocks(d receiversPage) []liveBlock {
	return []liveBlock{{"status", receiversStatus(d)}, {"holds", receiversHolds(d)}, sampled("holds", d.HeldAt), {"hosts", receiversHosts(d)},
		sampled("hosts", d.HostsAt), {"redirects", receiversRedirects(d)}, sampled("redirects", d.RedirectsAt),
		{"rates", receiversLimits(d)}, sampled("rates", d.InstancesAt)}
}

// sampled is the block with the time of a block's sample. In the block itself, each sample would change all of it.
func sampled(name string, at stamp) liveBlock {
	return liveBlock{name + "-at", sampleTime(name+"-at", at)}
}

// feed is a stream of server-sent events to one browser.
type feed struct {
	p       *Pages
	r       *http.Request
	visitor Visitor
	release func() // of the client's share
	send    func(text string) error
	beat    *time.Ticker
	recheck time.Time
	sent    map[string][]byte // by the name of the block
}

// open starts a stream. The caller closes it.
func (p *Pages) open(w http.ResponseWriter, r *http.Request, v Visitor) (*feed, error) {
	release, ok := p.streams.Take(v.Client)
	if !ok {
		return nil, failure{http.StatusServiceUnavailable, say("Too many dashboards are open at this instance. Reload the page for new figures.")}
	}

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer the stream
	control := http.NewResponseController(w)
	f := &feed{p: p, r: r, visitor: v, release: release, beat: time.NewTicker(liveBeat), recheck: time.Now().Add(recheckEvery),
		sent: map[string][]byte{}}
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
	f.release()
}

// allowed reports whether the visitor is still signed in. It checks the session every recheckEvery.
func (f *feed) allowed() bool {
	if time.Now().Before(f.recheck) {
		return true
	}

	f.recheck = time.Now().Add(recheckEvery)
	return f.p.stillSignedIn(f.r, f.visitor)
}

// wait waits for pace; false if the stream ends.
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
			return f.allowed()
		}
	}
}

// sendChanged sends the changed blocks.
func (f *feed) sendChanged(blocks []block) error {
	var news strings.Builder
	for _, block := range blocks {
		if !bytes.Equal(f.sent[block.name], block.text) {
			f.sent[block.name] = block.text
			news.WriteString(event(bytes.ReplaceAll(block.text, []byte(csrfHere), []byte(templ.EscapeString(f.visitor.CSRF)))))
		}
	}

	if news.Len() == 0 {
		return nil
	}

	return f.send(news.String())
}

// again starts a stream: the milliseconds after which a browser reconnects.
const again = "retry: 3000\n\n"

// stillHere is the empty event.
const stillHere = ": still here\n\n"

// showLive serves a stream of server-sent events with the changed blocks of a page.
func (p *Pages) showLive(w http.ResponseWriter, r *http.Request, v Visitor) error {
	name := r.PathValue("page")
	if livePages[name] == nil {
		return failure{http.StatusNotFound, say("There is no such page.")}
	}

	f, err := p.open(w, r, v)
	if err != nil {
		return err
	}

	defer f.close()
	if f.send(again) != nil {
		return nil
	}

	boards, leave := p.sampler.Watch(name)
	defer leave()
	for {
		var b *problems.Board
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

		if !f.allowed() {
			return nil
		}

		blocks, err := p.blocks(livePage{name, r.URL.Query()}, b, v, languageOf(r))
		if err != nil {
			p.log.Error("cannot render a live page", zap.String("page", name), zap.Error(err))
			return nil
		}

		if f.sendChanged(blocks) != nil {
			return nil
		}
	}
}

// csrfHere is a placeholder for the CSRF token in HTML that is rendered once for several visitors. Each visitor's
// token replaces it. It is random, so that no notice can contain it.
var csrfHere = rand.Text()

type block struct {
	name string
	text []byte
}

// livePage is a live page with its query.
type livePage struct {
	name  string
	query url.Values
}

// rendered are the blocks of one board, by page, query, language and scope.
type rendered struct {
	mu     sync.Mutex
	board  *problems.Board
	blocks map[string][]block
}

// blocks renders the blocks of a page once for all visitors with the same scope and language.
func (p *Pages) blocks(page livePage, b *problems.Board, v Visitor, lang *language) ([]block, error) {
	p.rendered.mu.Lock()
	defer p.rendered.mu.Unlock()
	if p.rendered.board != b {
		p.rendered.board, p.rendered.blocks = b, map[string][]block{}
	}

	id := page.name + "?" + page.query.Encode() + " " + lang.Tag + " " + v.scope()
	if list := p.rendered.blocks[id]; list != nil {
		return list, nil
	}

	v.CSRF = csrfHere
	list, err := lang.renderBlocks(livePages[page.name](p, b, v, page.query))
	if err == nil {
		p.rendered.blocks[id] = list
	}

	return list, err
}

// renderBlocks renders live blocks in the language.
func (l *language) renderBlocks(blocks []liveBlock) ([]block, error) {
	var list []block
	for _, b := range blocks {
		text, err := l.render(b.content)
		if err != nil {
			return nil, err
		}

		list = append(list, block{b.name, text})
	}

	return list, nil
}

// event returns a server-sent event with a text.
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
