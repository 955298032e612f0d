package config

import (
	"notifier/internal/route"
	"notifier/internal/seal"
)

// sealKeys reads NOTIFIER_SEAL_KEYS. Its error does not contain the keys.
func (r *reader) sealKeys(text string) *seal.ServiceKeys {
	if text == "" {
		return nil
	}

	k, err := seal.ParseServiceKeys(text)
	if err != nil {
		r.add(Prefix+"SEAL_KEYS", "", "(not shown) "+err.Error())
	}

	return k
}

// seal reads whose keys seal the notices of the route, and refuses settings that would leave clear text somewhere.
func (rr *routeReader) seal(c *Config) {
	raw, rt := &rr.raw, rr.rt
	rr.sealEntries()
	rr.sealURL()
	if raw.Seal == "" {
		return
	}

	var err error
	if rt.Seal, err = seal.ParseScope(raw.Seal); err != nil {
		rr.bad("SEAL", raw.Seal, err.Error())
		return
	}

	switch {
	case c.SealKeys == nil && !rr.errs.Of(Prefix+"SEAL_KEYS"):
		rr.bad("SEAL", raw.Seal, "needs "+Prefix+"SEAL_KEYS, such as 2026-11=<32 random bytes in base64>")
	case rt.Adopt:
		rr.bad("SEAL", raw.Seal, "cannot be combined with ADOPT, because the value of a plain timer is clear text; remove one of the two")
	}
}

// sealEntries reads the form of the entries of sealed notices. The route may have such notices from before, when it had a SEAL.
func (rr *routeReader) sealEntries() {
	value := rr.raw.SealEntries
	switch {
	case value == "":
	case value != "sealed" && value != "open":
		rr.bad("SEAL_ENTRIES", value, "want sealed or open")
	case rr.rt.Target.Kind != "" && !rr.rt.Local():
		rr.bad("SEAL_ENTRIES", value, "is for the targets list, stream and log; remove it, the target is "+string(rr.rt.Target.Kind))
	}

	rr.rt.OpenEntries = value == "open"
}

// sealURL reads whether the queries of urls are sealed.
func (rr *routeReader) sealURL() {
	value, rt := rr.raw.SealURL, rr.rt
	switch rt.SealURL = rr.booleanAs(rr.prefix+"SEAL_URL", value); {
	case !rt.SealURL:
	case rr.raw.Seal == "":
		rr.bad("SEAL_URL", value, "needs SEAL of the same route: route, audience or id")
	case rt.Target.Kind != "" && rt.Target.Kind != route.KindNotice:
		rr.bad("SEAL_URL", value, "is for the target notice; remove it, with the target "+string(rt.Target.Kind)+" the notices bring no url")
	}
}

// sealText says how a route seals its notices.
func sealText(rt *route.Route) string {
	text := ", sealed with a key for each " + string(rt.Seal)
	if rt.SealURL {
		text += ", also the queries of urls"
	}

	if rt.OpenEntries {
		text += ", its entries in clear text"
	}

	return text
}
