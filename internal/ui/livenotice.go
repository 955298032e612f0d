package ui

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/store"
)

// A notice's live page reads the notice every noticeEvery. All these pages together read at most noticesASecond
// notices a second. One read takes about 7 Redis commands, or twice that if the notice waits for another one.
const (
	noticeEvery     = 2 * time.Second
	noticesASecond  = 2
	liveNoticePages = "notices/" // precedes the key in the name of the live page
)

// noticeBlocks are the live blocks of a notice's page.
func noticeBlocks(d noticePage) []liveBlock {
	return []liveBlock{{"headline", noticeHeadline(d)}, {"doing", noticeActions(d)}, {"way", noticeTimeline(d)}, {"facts", noticeFacts(d)}}
}

// showLiveNotice serves a stream of server-sent events with the changes of a notice. It ends when the
// notice is no longer found.
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

	lang, known, told := languageOf(r), store.Found{}, chronicle{}
	for {
		if known.Notice == nil || !sameTurn(&known, &found) {
			known, told = found, p.chronicle(r.Context(), &found, v)
		}

		page := p.noticePage(&found, told, v)
		p.addHead(r.Context(), &page, &found, v)
		blocks, err := lang.renderBlocks(noticeBlocks(page))
		if err != nil {
			p.log.Error("cannot render a live page", zap.String("page", "notice"), zap.Error(err))
			return nil
		}

		if f.sendChanged(blocks) != nil {
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
			return nil // the notice is no longer kept or visible; the page keeps its last state
		case api.Explain(err) == nil:
			p.log.Error("cannot read a live page", zap.String("page", "notice"), zap.Error(err))
			return nil
		}
	}
}

// sameTurn reports whether neither an end nor a change of the due time lies between two states of a notice, so that history
// and audit need not be read again.
func sameTurn(a, b *store.Found) bool {
	return a.ID() == b.ID() && a.State == b.State && a.Endings == b.Endings && a.Redriven == b.Redriven &&
		(a.AttemptsMade != b.AttemptsMade || a.Due.Equal(b.Due))
}

// noticePace returns the time until a stream reads its notice again.
func (p *Pages) noticePace() time.Duration {
	return max(noticeEvery, time.Duration(p.noticeStreams.Load())*time.Second/noticesASecond)
}
