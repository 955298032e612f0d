package route

import "notifier/internal/sign"

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

// DerivesKeys reports whether each receiver of the route verifies with a secret of its own.
func (r *Route) DerivesKeys() bool { return r.Signing().HMAC() && r.Signs() != sign.PerRoute }
