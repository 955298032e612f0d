package route

import (
	"slices"
	"strings"

	"notifier/internal/sign"
)

// Signs returns whose keys sign this route's callbacks with the schemes whose keys receivers have. The default of SignPer is host
// where each notice brings its url, and route where there is one receiver.
func (r *Route) Signs() sign.Per {
	switch {
	case r.SignPer != "":
		return r.SignPer
	case r.Target.Kind == KindNotice:
		return sign.PerHost
	}
	return sign.PerRoute
}

// Signing returns the signature settings of the route's callbacks. The default of Sign is the scheme standard
// if there are secrets. Schemes is empty if callbacks are not signed.
func (r *Route) Signing() *sign.Settings {
	s := &sign.Settings{Schemes: r.Sign, Secrets: r.Secrets, TextKey: r.TextKey, Per: r.Signs(), Keys: r.SignKeys, Headers: r.SignHeaders}
	if len(s.Schemes) == 0 && len(s.Secrets) > 0 {
		s.Schemes = []sign.Scheme{sign.Standard}
	}

	return s
}

// KeyIDs returns the ids of the asymmetric keys of all routes, and the ids of the keys that sign. Both lists
// are sorted and have no duplicates.
func (t *Table) KeyIDs() (published, signing []string) {
	for _, r := range t.All() {
		for _, k := range r.SignKeys {
			published = append(published, k.ID)
		}

		s := r.Signing()
		for _, scheme := range s.Schemes {
			if k := s.Key(scheme); k != nil {
				signing = append(signing, k.ID)
			}
		}
	}

	slices.Sort(published)
	slices.Sort(signing)
	return slices.Compact(published), slices.Compact(signing)
}

// TestContent returns a content that the route can send as a test.
func (r *Route) TestContent() (body []byte, contentType string) {
	if r.Robot != nil {
		return r.Robot.Body(&AlarmMessage{Event: AlarmTest}), ""
	}

	if slices.Contains(r.Sign, sign.Alipay) {
		return []byte("test=true"), "application/x-www-form-urlencoded"
	}

	return []byte(`{"test":true}`), ""
}

// SignedBy names the schemes that sign the route's callbacks, or the format of its messages if these are signed; nil = unsigned.
func (r *Route) SignedBy() (names []string) {
	for _, scheme := range r.Signing().Schemes {
		names = append(names, string(scheme))
	}

	if r.Robot.Signs() {
		names = append(names, r.Robot.String())
	}

	return names
}

// SignedText describes how the route's callbacks are signed, such as "signed by stripe, jws, per host".
func (r *Route) SignedText() string {
	s, names := r.Signing(), r.SignedBy()
	switch {
	case len(names) == 0:
		return "unsigned"
	case len(s.Schemes) == 1 && s.Schemes[0] == sign.Standard:
		return "signed per " + string(s.Per)
	}

	text := strings.Join(names, ", ")
	if s.Shared() {
		text += ", per " + string(s.Per)
	}

	return "signed by " + text
}
