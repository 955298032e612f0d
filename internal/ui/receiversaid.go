package ui

import (
	"cmp"
	"context"
	"slices"
	"time"

	"notifier/internal/notice"
	"notifier/internal/search"
	"notifier/internal/store"
)

// mostTexts is the maximum number of texts of answers on the page of a receiver. waitingRead is the number of waiting notices
// that are read for them.
const (
	mostTexts   = 3
	waitingRead = 50
)

// answerSaid is the text of an answer of a receiver, masked as on the page of the notice.
type answerSaid struct {
	At     stamp
	Answer text
	Text   string
	Key    string
	at     time.Time
}

// saidTexts collects the latest different texts of failed attempts.
type saidTexts struct {
	p    *Pages
	v    Visitor
	list []answerSaid
}

// add adds the last attempt of notices.
func (t *saidTexts) add(list []store.Found) {
	for i := range list {
		f := &list[i]
		if len(f.Attempts) == 0 {
			continue
		}

		a := f.Attempts[len(f.Attempts)-1]
		if a.Reason == "" || a.Response == "" || len(t.list) == mostTexts && !a.At.After(t.list[mostTexts-1].at) {
			continue
		}

		t.list = append(t.list, answerSaid{At: t.p.stamp(a.At), Answer: answerText(a.Status, a.Reason), Text: t.p.view(f).AnswerText(a.Response),
			Key: f.Key, at: a.At})
		t.keepLatest()
	}
}

// keepLatest orders the texts, and drops repetitions and those above the maximum.
func (t *saidTexts) keepLatest() {
	slices.SortStableFunc(t.list, func(a, b answerSaid) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.Key, b.Key)) })
	seen := map[string]bool{}
	t.list = slices.DeleteFunc(t.list, func(x answerSaid) bool {
		again := seen[x.Text]
		seen[x.Text] = true
		return again
	})
	t.list = t.list[:min(len(t.list), mostTexts)]
}

// addWaiting adds the answers to the first waiting notices of a receiver.
func (t *saidTexts) addWaiting(ctx context.Context, route, host string) error {
	q, _ := t.p.searchFor(filter{Route: route, State: notice.Scheduled, Host: host}, t.v)
	got, err := t.p.searcher.Search(ctx, q, t.v.searches(), search.Page{Limit: waitingRead, Uncounted: true, Only: search.RedisSection})
	t.add(got.Live.Items)
	return cmp.Or(err, got.Live.Err)
}
