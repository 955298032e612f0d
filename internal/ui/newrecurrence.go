package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/store"
)

// recurrenceFields are the names of the fields of the form, as the API names them.
var recurrenceFields = []string{"key", "cron", "zone", "every", "missed", "overlap", "url", "body", "expires"}

// newRecurrencePage is the form of a new recurring notice.
type newRecurrencePage struct {
	Values map[string]string
	Wrong  map[string]text // faults by field; "" = of none of the fields
	CSRF   string
	Next   []tick // the next ones; empty without a preview
}

// tick is a tick of a preview.
type tick struct {
	At    stamp
	Local string // its time in the zone of the cron expression; empty without a zone
}

// Given returns the value of a field with its fault.
func (d newRecurrencePage) Given(name string, label text, example string) recurrenceField {
	return recurrenceField{timeInput{Label: label, Name: name, Value: d.Values[name], Example: example}, d.Wrong[name]}
}

// recurrenceField is a field with its fault, if any.
type recurrenceField struct {
	timeInput
	Wrong text
}

// invalid returns the attributes of a field with a fault.
func invalid(name string, why text) templ.Attributes {
	if why == nil {
		return nil
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": "wrong-" + name}
}

// changeNewRecurrences adds the form of a new recurring notice, its preview and its creation.
func (p *Pages) changeNewRecurrences() {
	p.page(auth.Produce, "GET /ui/recurrences/new", p.newRecurrence(func(http.ResponseWriter, *http.Request, Visitor, *newRecurrencePage) (
		bool, error) {
		return false, nil
	}))
	p.change(auth.Produce, "POST /ui/recurrences/new", p.newRecurrence(p.previewRecurrence))
	p.change(auth.Produce, "POST /ui/recurrences", p.newRecurrence(p.createRecurrence))
}

// newRecurrence serves the form after do, which checks or stores it and reports whether it has answered.
func (p *Pages) newRecurrence(do func(w http.ResponseWriter, r *http.Request, v Visitor, page *newRecurrencePage) (bool, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		if p.o.Recurrences == nil {
			return errNoRecurrences
		}

		page := newRecurrencePage{Values: map[string]string{}, Wrong: map[string]text{}, CSRF: v.CSRF}
		for _, name := range recurrenceFields {
			page.Values[name] = strings.TrimSpace(r.PostFormValue(name))
		}

		if done, err := do(w, r, v, &page); done || err != nil {
			return err
		}

		status := http.StatusOK
		if len(page.Wrong) > 0 {
			status = http.StatusUnprocessableEntity
		}

		return p.render(w, r, status, view{Title: say("New recurring notice"), Section: say("Recurrences"), Visitor: v,
			Content: newRecurrenceContent(page)})
	}
}

// previewRecurrence adds the next ticks or the faults, and stores nothing.
func (p *Pages) previewRecurrence(_ http.ResponseWriter, r *http.Request, v Visitor, page *newRecurrencePage) (bool, error) {
	d, err := p.recurrenceOf(r.Context(), v, page)
	if err != nil || len(page.Wrong) > 0 {
		return false, err
	}

	next, err := d.Upcoming(p.now(), api.ShownTicks)
	zone, unknown := time.LoadLocation(d.Spec.Zone)
	for _, t := range next {
		local := ""
		if unknown == nil && d.Spec.Zone != "" {
			local = t.In(zone).Format(time.DateTime) + " " + d.Spec.Zone
		}

		page.Next = append(page.Next, tick{p.stamp(t), local})
	}

	return false, err
}

// createRecurrence stores the previewed recurring notice.
func (p *Pages) createRecurrence(w http.ResponseWriter, r *http.Request, v Visitor, page *newRecurrencePage) (bool, error) {
	d, err := p.recurrenceOf(r.Context(), v, page)
	if err != nil || len(page.Wrong) > 0 {
		return false, err
	}

	_, _, err = p.o.Recurrences.Put(lasting(r), d)
	p.note(r, v, audit.Entry{Action: audit.Recur, Key: d.Key, Detail: api.Ticks(d.Spec)}, err)
	if errors.Is(err, store.ErrOtherState) {
		return false, errRecurrenceChanges
	}
	if err != nil {
		return false, err
	}

	return true, back(w, Root+"recurrences", url.Values{"said": {"recurrence-created"}})
}

// recurrenceOf returns the definition of a form, and adds the faults to the page.
func (p *Pages) recurrenceOf(ctx context.Context, v Visitor, page *newRecurrencePage) (recur.Definition, error) {
	get := func(name string) string { return page.Values[name] }
	d := recur.Definition{Key: get("key"), Spec: recur.Spec{Cron: get("cron"), Zone: get("zone")}, Missed: recur.Missed(get("missed")),
		Overlap: recur.Overlap(get("overlap")), Content: notice.Content{URL: get("url"), Body: []byte(get("body"))}}
	d.Spec.Every, d.Content.ExpiresAfter = page.duration("every"), page.duration("expires")
	if keys.Valid(d.Key) && (!v.Covers(d.Key) || v.Narrow()) { // the answer does not show whether it exists
		page.Wrong["key"] = say("You may only create recurring notices under `%s`.", v.Prefix)
		return d, nil
	}

	faults, err := p.o.Recurrences.Check(ctx, &d)
	if errors.Is(err, store.ErrUnrouted) {
		page.Wrong["key"], err = say("No route matches this key."), nil
	}

	if err != nil {
		return d, err
	}

	page.add(faults)
	if len(page.Wrong) == 0 {
		if _, err = p.o.Recurrences.Get(ctx, d.Key); err == nil {
			page.Wrong["key"] = say("A recurring notice has this key. `notifier recur create` changes it.")
		}
	}

	if errors.Is(err, store.ErrNotDefined) {
		err = nil
	}

	return d, err
}

// duration returns the value of a field, 0 if it is empty or wrong.
func (d *newRecurrencePage) duration(name string) time.Duration {
	text := d.Values[name]
	if text == "" {
		return 0
	}

	v, err := notice.ParseDuration(text)
	if err != nil || v <= 0 {
		d.Wrong[name] = say("Not a duration such as 15m or 1d12h.")
		return 0
	}

	return v
}

// add adds the first fault of each field; those of fields that the form lacks are faults of the form.
func (d *newRecurrencePage) add(faults []recur.Fault) {
	for _, f := range faults {
		name := f.Field
		if name == "cron" && d.Values["cron"] == "" && d.Wrong["every"] != nil {
			continue // the interval is given, and wrong
		}

		if _, shown := d.Values[name]; !shown {
			name = ""
		}

		if d.Wrong[name] == nil {
			why, _ := matched(strings.TrimPrefix(f.Err.Error(), notice.ErrInvalid.Error()+": "), faultPatterns())
			d.Wrong[name] = say("Not accepted: %s", why)
		}
	}
}
