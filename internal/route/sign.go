package route

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// SignPer says whose keys sign a route's callbacks.
type SignPer string

// Whose keys sign. A derived key is one receiver's own: what it can verify it
// can forge for nobody else.
const (
	SignPerRoute    SignPer = "route"    // the route's secrets themselves
	SignPerHost     SignPer = "host"     // keys derived for the host that is called
	SignPerAudience SignPer = "audience" // keys derived for whom the notice names
	// SignPerHostRoute sends the host's signature and the route's, for changing
	// over from route to host receiver by receiver.
	SignPerHostRoute SignPer = "host,route"
)

// ParseSignPer reads route, host, audience and host,route.
func ParseSignPer(s string) (SignPer, error) {
	switch p := SignPer(s); p {
	case SignPerRoute, SignPerHost, SignPerAudience, SignPerHostRoute:
		return p, nil
	case "host, route", "route,host", "route, host":
		return SignPerHostRoute, nil
	}
	return "", fmt.Errorf("want route, host, audience or host,route")
}

// Signs is whose keys sign this route's callbacks: what SignPer says, or else
// host where each notice brings its url, and route where there is one receiver.
func (r *Route) Signs() SignPer {
	switch {
	case r.SignPer != "":
		return r.SignPer
	case r.Target.Kind == KindNotice:
		return SignPerHost
	}
	return SignPerRoute
}

// The labels that a derived key's subject stands behind.
const (
	HostLabel     = "notifier host:"
	AudienceLabel = "notifier audience:"
)

// ForHost is the key of one host, given in the form of notice.Host.
func (s Secret) ForHost(host string) Secret { return s.derive(HostLabel + host) }

// ForAudience is the key of one audience.
func (s Secret) ForAudience(audience string) Secret { return s.derive(AudienceLabel + audience) }

func (s Secret) derive(text string) Secret {
	mac := hmac.New(sha256.New, s)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Reveal is the secret as it is handed to a receiver: whsec_ and base64.
func (s Secret) Reveal() string { return "whsec_" + base64.StdEncoding.EncodeToString(s) }
