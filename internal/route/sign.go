package route

import (
	"slices"

	"notifier/internal/sign"
)

// Signs is whose keys sign this route's callbacks with the HMAC schemes: SignPer, or else
// host where each notice brings its url, and route where there is one receiver.
func (r *Route) Signs() sign.Per {
	switch {
	case r.SignPer != "":
		return r.SignPer
	case r.Target.Kind == KindNotice:
		return sign.PerHost
	}
	return sign.PerRoute
}

// Signing is what the route's callbacks are signed with. Without Sign that is the scheme
// standard, if there are secrets. Its Schemes are empty if the callbacks are not signed.
func (r *Route) Signing() *sign.Settings {
	s := &sign.Settings{Schemes: r.Sign, Secrets: r.Secrets, Per: r.Signs(), Keys: r.SignKeys, Headers: r.SignHeaders}
	if len(s.Schemes) == 0 && len(s.Secrets) > 0 {
		s.Schemes = []sign.Scheme{sign.Standard}
	}
	return s
}

// KeyIDs lists the ids of the asymmetric keys of all routes, and those of the keys that sign.
// Both are sorted and have each id once.
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

// TestContent is a content that the route can send as a test.
func (r *Route) TestContent() (body []byte, contentType string) {
	if slices.Contains(r.Sign, sign.Alipay) {
		return []byte("test=true"), "application/x-www-form-urlencoded"
	}
	return []byte(`{"test":true}`), ""
}

// SignedText says how the route's callbacks are signed: "signed by stripe, jws, per host".
func (r *Route) SignedText() string {
	s := r.Signing()
	var text string
	switch {
	case len(s.Schemes) == 0:
		return "unsigned"
	case len(s.Schemes) == 1 && s.Schemes[0] == sign.Standard:
		return "signed per " + string(s.Per)
	}
	for i, scheme := range s.Schemes {
		if i > 0 {
			text += ", "
		}
		text += string(scheme)
	}
	if s.HMAC() {
		text += ", per " + string(s.Per)
	}
	return "signed by " + text
}
