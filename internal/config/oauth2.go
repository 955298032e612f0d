package config

import (
	"strings"

	"notifier/internal/route"
)

// oauth2 reads the token endpoint and the client's credentials there.
func (rr *routeReader) oauth2() {
	raw, rt := &rr.raw, rr.rt
	if !rr.hasOAuth2() {
		return
	}

	o := &route.OAuth2{ClientID: raw.OAuth2ClientID, ClientSecret: route.Hidden(raw.OAuth2ClientSecret), Audience: raw.OAuth2Audience,
		Scopes: strings.FieldsFunc(raw.OAuth2Scopes, func(r rune) bool { return r == ',' || r == ' ' })}

	var err error
	if raw.OAuth2TokenURL == "" {
		rr.bad("OAUTH2_TOKEN_URL", "", "is missing; want https://… of the issuer's token endpoint, or remove the other OAUTH2_ variables")
	} else if o.TokenURL, err = route.ParseTokenURL(raw.OAuth2TokenURL); err != nil {
		rr.bad("OAUTH2_TOKEN_URL", "", "(not shown) "+err.Error())
	}

	if raw.OAuth2ClientID == "" {
		rr.bad("OAUTH2_CLIENT_ID", "", "is missing; want this service's client id at the issuer")
	}

	if raw.OAuth2ClientSecret == "" && !rr.wrongOrFile("OAUTH2_CLIENT_SECRET") {
		rr.bad("OAUTH2_CLIENT_SECRET", "", "is missing; want the client's secret, or "+rr.prefix+
			"OAUTH2_CLIENT_SECRET_FILE with the name of a file that holds it")
	}

	rr.onlyOAuth2()
	rt.OAuth2 = o
}

// onlyOAuth2 reports other settings that set the header Authorization too.
func (rr *routeReader) onlyOAuth2() {
	for _, h := range rr.rt.Headers {
		if strings.EqualFold(h.Name, "authorization") {
			rr.bad("HEADERS", "", "sets Authorization, and so does "+rr.prefix+"OAUTH2_TOKEN_URL; remove one of them")
		}
	}
	if u := rr.rt.Target.URL; u != nil && u.User != nil {
		rr.bad("TARGET", origin(u), "contains a user, which sets Authorization, and so does "+rr.prefix+"OAUTH2_TOKEN_URL; remove one of them")
	}
}

func (rr *routeReader) hasOAuth2() bool {
	raw := &rr.raw
	return raw.OAuth2TokenURL+raw.OAuth2ClientID+raw.OAuth2ClientSecret+raw.OAuth2Scopes+raw.OAuth2Audience != "" ||
		rr.wrongOrFile("OAUTH2_CLIENT_SECRET")
}
