package config

import (
	"strings"

	"notifier/internal/route"
)

// oauth2 reads where the route gets access tokens.
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
		rr.bad("OAUTH2_CLIENT_ID", "", "is missing; want the id that the issuer knows this service by")
	}
	if raw.OAuth2ClientSecret == "" && !rr.wrongOrFile("OAUTH2_CLIENT_SECRET") {
		rr.bad("OAUTH2_CLIENT_SECRET", "", "is missing; want the client's secret, or "+rr.prefix+"OAUTH2_CLIENT_SECRET_FILE with the name of a file that holds it")
	}
	for _, h := range rt.Headers {
		if strings.EqualFold(h.Name, "authorization") {
			rr.bad("HEADERS", "", "has an Authorization, which "+rr.prefix+"OAUTH2_TOKEN_URL writes; remove one of them")
		}
	}
	if u := rt.Target.URL; u != nil && u.User != nil {
		rr.bad("TARGET", origin(u), "has a user, who is sent as Authorization, which "+rr.prefix+"OAUTH2_TOKEN_URL writes; remove one of them")
	}
	rt.OAuth2 = o
}

func (rr *routeReader) hasOAuth2() bool {
	raw := &rr.raw
	return raw.OAuth2TokenURL+raw.OAuth2ClientID+raw.OAuth2ClientSecret+raw.OAuth2Scopes+raw.OAuth2Audience != "" || rr.wrongOrFile("OAUTH2_CLIENT_SECRET")
}
