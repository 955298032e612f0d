package config

import (
	"errors"
	"slices"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// signing reads how the callbacks of a route are signed.
func (rr *routeReader) signing() {
	raw, rt := &rr.raw, rr.rt
	var err error
	if raw.Secret != "" {
		if rt.Secrets, err = sign.ParseSecrets(raw.Secret); err != nil {
			rr.bad("SECRET", "", "(not shown) "+err.Error())
		}
	}

	if raw.Sign != "" {
		if rt.Sign, err = sign.ParseSchemes(raw.Sign); err != nil {
			rr.bad("SIGN", raw.Sign, err.Error())
		}
	}

	if raw.SignTextKey != "" {
		if rt.TextKey, err = sign.ParseTextKey(raw.SignTextKey); err != nil {
			rr.bad("SIGN_TEXT_KEY", "", "(not shown) "+err.Error())
		}
	}

	rr.signKeys()
	rr.signHeader()
	if raw.Sign == "" || rt.Sign != nil {
		rr.schemes()
		rr.signPer()
	}
}

func (rr *routeReader) signKeys() {
	raw, rt := &rr.raw, rr.rt
	var ids []string
	if raw.SignKeyID != "" {
		for id := range strings.SplitSeq(raw.SignKeyID, ",") {
			ids = append(ids, strings.TrimSpace(id))
		}
	}

	if raw.SignKey == "" {
		if ids != nil && !rr.wrongOrFile("SIGN_KEY") {
			rr.bad("SIGN_KEY_ID", raw.SignKeyID, "needs "+rr.prefix+"SIGN_KEY; set the keys, or remove it")
		}
		return
	}

	var err error
	var wrongIDs *sign.IDsError
	switch rt.SignKeys, err = sign.ParseKeys(raw.SignKey, ids); {
	case errors.As(err, &wrongIDs):
		rr.bad("SIGN_KEY_ID", raw.SignKeyID, err.Error())
	case err != nil:
		rr.bad("SIGN_KEY", "", "(not shown) "+err.Error())
	}

	if err != nil {
		rt.SignKeys = nil
	}
}

// wrongOrFile reports whether a variable, or its _FILE variant, already has an error.
func (rr *routeReader) wrongOrFile(name string) bool {
	return rr.errs.Of(rr.prefix+name) || rr.errs.Of(rr.prefix+name+"_FILE")
}

func (rr *routeReader) signHeader() {
	raw, rt := &rr.raw, rr.rt
	if raw.SignHeader == "" {
		return
	}

	var err error
	if rt.SignHeaders, err = sign.ParseHeaders(raw.SignHeader, notice.Reserved); err != nil {
		rr.bad("SIGN_HEADER", raw.SignHeader, err.Error())
	}
}

// schemes checks that each scheme has its key and fits the rest of the route.
func (rr *routeReader) schemes() {
	raw, rt := &rr.raw, rr.rt
	settings := rt.Signing()
	for scheme := range rt.SignHeaders {
		if !settings.Has(scheme) {
			rr.bad("SIGN_HEADER", raw.SignHeader, string(scheme)+" is not one of the schemes in "+rr.prefix+"SIGN; add it there, or remove it here")
		}
	}

	if clash := rt.SignHeaders.Clash(settings.Schemes); clash != "" {
		rr.bad("SIGN_HEADER", raw.SignHeader, "two schemes would set the header "+clash+"; want different names")
	}

	for _, scheme := range settings.Schemes {
		rr.schemeKey(settings, scheme)
	}

	if len(rt.Secrets) > 0 && !settings.HMAC() {
		rr.bad("SECRET", "", "(not shown) is not used by any scheme in "+rr.prefix+
			"SIGN; add standard, stripe or github there, or remove it")
	}

	if raw.SignTextKey != "" && !slices.ContainsFunc(settings.Schemes, sign.Scheme.Text) {
		rr.bad("SIGN_TEXT_KEY", "", "(not shown) is not used by any scheme in "+rr.prefix+
			"SIGN; add sorted or sorted-jeepay there, or remove it")
	}

	rr.inBody(settings)
}

// inBody checks that a scheme that adds its signature to the body fits the rest of the route.
func (rr *routeReader) inBody(settings *sign.Settings) {
	raw, rt, scheme := &rr.raw, rr.rt, settings.InBody()
	if scheme == "" {
		return
	}

	by := "cannot be combined with " + rr.prefix + "SIGN=" + string(scheme)
	for _, other := range settings.Schemes {
		if other.InBody() && other != scheme {
			rr.bad("SIGN", raw.Sign, string(scheme)+" and "+string(other)+
				" would both add the field sign to the body; want one of them")
		}
	}

	if rt.Adopt {
		rr.bad("ADOPT", raw.Adopt, by+", because a plain timer's value has no content type and the scheme signs "+
			"the fields of the body; want false")
	}

	if rt.Method == "GET" {
		rr.bad("METHOD", raw.Method, by+", which signs the fields of the body; want POST or PUT")
	}
}

// schemeKey reports that the key of a scheme is missing.
func (rr *routeReader) schemeKey(s *sign.Settings, scheme sign.Scheme) {
	one := *s
	one.Schemes = []sign.Scheme{scheme}
	_, err := sign.New(&one)
	var need *sign.NeedError
	if !errors.As(err, &need) {
		return
	}

	name := "SIGN_KEY"
	switch {
	case need.Secret:
		name = "SECRET"
	case need.Serial:
		name = "SIGN_KEY_ID"
	case need.Text:
		name = "SIGN_TEXT_KEY"
	}

	if rr.wrongOrFile(name) || !need.Secret && !need.Text && (rr.wrongOrFile("SIGN_KEY") || rr.errs.Of(rr.prefix+"SIGN_KEY_ID")) {
		return
	}

	text := "is missing: " + need.Error()
	if need.Serial {
		text += ". Want it here, or the key's certificate in " + rr.prefix + "SIGN_KEY"
	}

	rr.bad(name, "", text)
}

// signPer reads the scope of the keys for the schemes whose keys receivers have.
func (rr *routeReader) signPer() {
	raw, rt := &rr.raw, rr.rt
	if raw.SignPer == "" {
		return
	}

	var err error
	settings := rt.Signing()
	switch rt.SignPer, err = sign.ParsePer(raw.SignPer); {
	case err != nil:
		rr.bad("SIGN_PER", raw.SignPer, err.Error())
	case rt.Adopt && rt.SignPer == sign.PerAudience:
		rr.bad("SIGN_PER", raw.SignPer, "cannot be combined with "+rr.prefix+"ADOPT, because a plain timer names no audience; want route or host")
	case rt.SignPer == sign.PerHostRoute && settings.Has(sign.GitHub):
		rr.bad("SIGN_PER", raw.SignPer, "cannot be combined with "+rr.prefix+
			"SIGN=github, whose header contains one signature; want route, host or audience")
	case rt.SignPer == sign.PerHostRoute && settings.InBody().Text():
		rr.bad("SIGN_PER", raw.SignPer, "cannot be combined with "+rr.prefix+"SIGN="+string(settings.InBody())+
			", whose body contains one signature; want route, host or audience")
	case settings.Shared(), rr.wrongOrFile("SECRET"):
	case raw.Secret == "" && len(rt.Sign) == 0:
		rr.bad("SIGN_PER", raw.SignPer, "needs "+rr.prefix+"SECRET; set a secret, or remove it")
	default:
		rr.bad("SIGN_PER", raw.SignPer, "is for standard, stripe, github, sorted and sorted-jeepay; remove it, or add one of them to "+
			rr.prefix+"SIGN")
	}
}

// signKeyIDs checks that no two routes publish different keys with one id.
func (r *reader) signKeyIDs(routes []*route.Route) {
	type owner struct{ name, public string }
	seen := map[string]owner{}
	for _, rt := range routes {
		for _, k := range rt.SignKeys {
			other, twice := seen[k.ID]
			if twice && other.public != k.PublicPEM() {
				r.add(routePrefix(rt.Name)+"SIGN_KEY_ID", k.ID, "is the id of another key of route "+other.name+
					"; all keys are published in one set. Want different ids")
			}

			seen[k.ID] = owner{rt.Name, k.PublicPEM()}
		}
	}
}
