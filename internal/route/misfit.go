package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/sign"
)

// Misfit is a field of a notice that does not fit the notice's route.
type Misfit struct{ Field, Text string }

// Misfits lists the fields that the route requires and the content lacks, and the fields that the route would
// reject at the call whatever DNS answers. notice.Content.Check validates the fields themselves.
func (r *Route) Misfits(c *notice.Content) []Misfit {
	var out []Misfit
	if text := r.urlMisfit(c); text != "" {
		out = append(out, Misfit{"url", text})
	}

	if text := r.lacksAudience(c); text != "" {
		out = append(out, Misfit{"audience", text})
	} else if text := r.sealMisfit(c.Audience); text != "" {
		out = append(out, Misfit{"audience", text})
	}

	signing := r.Signing()
	for _, h := range c.Headers {
		if r.reserves(signing, h.Name) {
			out = append(out, Misfit{"headers", fmt.Sprintf("%.80s is reserved: route %s writes it", h.Name, r.Name)})
		}
	}

	if m := r.bodyMisfit(c); m != nil {
		out = append(out, *m)
	}

	if m := r.queryMisfit(c); m != nil {
		out = append(out, *m)
	}

	return out
}

// queryMisfit returns why the body cannot be the query of a GET, if the route calls the receiver with one.
func (r *Route) queryMisfit(c *notice.Content) *Misfit {
	if cmp.Or(c.Method, r.Method) != http.MethodGet || r.Target.Kind != KindFixed && r.Target.Kind != KindNotice {
		return nil
	}

	var wrong *notice.QueryError
	if _, err := notice.Query(c.Body, c.EffectiveType()); errors.As(err, &wrong) {
		return &Misfit{wrong.Field, wrong.Text}
	}

	return nil
}

// CheckAddress returns an error that wraps notice.ErrInvalid if the route does not take the url and the headers of a
// notice that is stored already.
func (r *Route) CheckAddress(c *notice.Content) error {
	if r.Target.Kind != KindNotice {
		return fmt.Errorf("%w: url: the target of route %s is %s, so its notices have no address of their own", notice.ErrInvalid, r.Name,
			r.Target.Kind)
	}

	if _, err := notice.CanonicalURL(c.URL); err != nil {
		return err
	}
	if err := notice.CheckHeaders(c.Headers); err != nil {
		return err
	}

	for _, m := range r.Misfits(c) {
		if m.Field == "url" || m.Field == "headers" {
			return fmt.Errorf("%w: %s %s", notice.ErrInvalid, m.Field, m.Text)
		}
	}

	return nil
}

// Invalid returns why the route can never send the content, although it was scheduled. Empty means that it
// can.
func (r *Route) Invalid(c *notice.Content) string {
	if text := r.lacksAudience(c); text != "" {
		return "its audience " + text
	}
	if m := r.bodyMisfit(c); m != nil {
		return "its " + m.Field + " " + m.Text
	}

	return ""
}

// bodyMisfit returns why a scheme of the route cannot add its signature to the content.
func (r *Route) bodyMisfit(c *notice.Content) *Misfit {
	signing := r.Signing()
	scheme := signing.InBody()
	if scheme == "" {
		return nil
	}

	text := "; route " + r.Name + " signs with " + string(scheme)
	if c.Method == http.MethodGet {
		return &Misfit{"method", "is GET, which has no body to sign" + text}
	}

	var wrong *sign.BodyError
	if !errors.As(signing.CheckBody(c.Body, c.EffectiveType()), &wrong) {
		return nil
	}
	if wrong.Type {
		return &Misfit{"content_type", wrong.Error() + text}
	}

	return &Misfit{"body", wrong.Error() + text}
}

func (r *Route) urlMisfit(c *notice.Content) string {
	switch {
	case r.Target.Kind != KindNotice && c.URL != "":
		return fmt.Sprintf("is given, and the target of route %s is %s, so its notices bring no url", r.Name, r.Target.Kind)
	case r.Target.Kind != KindNotice:
		return ""
	case c.URL == "":
		return fmt.Sprintf("is missing: the target of route %s is notice, so each notice brings its url", r.Name)
	case r.HTTPSOnly && !notice.HTTPS(c.URL):
		return fmt.Sprintf("is not https, and route %s calls only https addresses", r.Name)
	}

	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}

	host, err := notice.Host(u.Hostname())
	if err != nil {
		return ""
	}

	var blocked *BlockedError
	if errors.As(r.CheckTarget(u, host), &blocked) {
		return "may not be called: " + blocked.Text()
	}

	var held *HeadersError
	if errors.As(r.CheckHeaders(OriginOf(u, host)), &held) {
		return held.Text()
	}

	return ""
}

// SealSubject returns the subject whose keys seal a notice of the route. The error wraps notice.ErrInvalid: the route seals for each
// audience, and the notice has none.
func (r *Route) SealSubject(audience, key string) (of seal.Subject, err error) {
	of, ok := r.Seal.Subject(r.Prefix, audience, key)
	if !ok {
		err = fmt.Errorf("%w: audience %s", notice.ErrInvalid, r.sealMisfit(audience))
	}

	return of, err
}

// sealMisfit returns an error text if the route seals for each audience and there is none; empty otherwise.
func (r *Route) sealMisfit(audience string) string {
	if _, ok := r.Seal.Subject(r.Prefix, audience, ""); ok {
		return ""
	}
	return "is missing; route " + r.Name + " seals the content for each audience"
}

// SealsMore reports whether a part of a content is in clear text that the route seals.
func (r *Route) SealsMore(c *notice.Content) bool {
	return r.Seal != "" && (c.Sealed == "" || r.SealURL && c.ShowsQuery())
}

// lacksAudience returns an error text if the route signs per audience and the content has none; empty
// otherwise.
func (r *Route) lacksAudience(c *notice.Content) string {
	if r.Signs() == sign.PerAudience && c.Audience == "" {
		return fmt.Sprintf("is missing: route %s signs for each audience, so each notice names whom it is for", r.Name)
	}
	return ""
}
