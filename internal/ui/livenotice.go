package ui

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
)

// A notice that somebody looks at is read again every so often, and less often the
// more of them are open: to read one takes some 7 commands, so that all together
// cost Redis 14 a second at most.
const (
	noticeEvery     = 2 * time.Second
	noticesASecond  = 2
	liveNoticePages = "notices/" // what a notice's page is named among those that are live
)

// noticeBlocks are the parts of a notice's page that change by themselves.
var noticeBlocks = []string{"headline", "doing", "way", "facts"}

// showLiveNotice serves a stream of server-sent events: how a notice stands, whenever
// that has changed. It ends with the notice.
func (p *Pages) showLiveNotice(w http.ResponseWriter, r *http.Request, v Visitor) error {
	found, err := p.find(r, v)
	if err != nil {
		return err
	}
	f, err := p.open(w, r, v)
	if err != nil {
		return err
	}
	defer f.close()
	defer p.noticeStreams.Add(-1)
	p.noticeStreams.Add(1)
	if f.send(again) != nil {
		return nil
	}
	for {
		blocks, err := p.blocksOf("notice", noticeBlocks, view{Visitor: v, Data: p.noticePage(&found, v)})
		if err != nil {
			p.log.Error("a live page could not be rendered", zap.String("page", "notice"), zap.Error(err))
			return nil
		}
		if f.tell(blocks) != nil {
			return nil
		}
		if !f.wait(p.noticePace()) {
			return nil
		}
		next, err := p.find(r, v)
		var gone failure
		switch {
		case err == nil:
			found = next
		case errors.As(err, &gone):
			return nil // what is kept no more, or is his no more; the page says how it was
		case api.Explain(err) == nil:
			p.log.Error("a live page could not be read", zap.String("page", "notice"), zap.Error(err))
			return nil
		}
	}
}

// noticePace is how long a stream waits until it reads its notice again.
func (p *Pages) noticePace() time.Duration {
	return max(noticeEvery, time.Duration(p.noticeStreams.Load())*time.Second/noticesASecond)
}
