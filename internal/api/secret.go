package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

var (
	paramHost = parameter{"host", "The receiver's host, if the route signs for each host: as in its url, without scheme, port and path.",
		"shop.example"}
	paramAudience = parameter{"audience", "Whom its notices name, if the route signs for each audience.", "m17"}
	secretParams  = []parameter{paramHost, paramAudience}
)

// ReceiverSecret answers GET /v1/routes/{name}/secret.
type ReceiverSecret struct {
	Route    string           `json:"route" doc:"The route's name."`
	SignPer  sign.Per         `json:"sign_per,omitempty" doc:"Whose keys sign with standard, stripe and github: route, host, audience or host,route. Absent if none of them signs."`
	Host     string           `json:"host,omitempty" doc:"As the key is derived for it: lower case, punycode, without final dot."`
	Audience string           `json:"audience,omitempty"`
	Secrets  []string         `json:"secrets" doc:"The keys to hand to this receiver, as whsec_ and base64: one for each of the route's secrets, so more than one while those are changed; the newest first. Empty where all receivers have the same keys."`
	Schemes  []ReceiverScheme `json:"schemes" doc:"How callbacks are signed; each scheme signs every callback."`
}

// ReceiverScheme is a scheme that signs, and what a receiver needs to verify it.
type ReceiverScheme struct {
	Scheme    string        `json:"scheme" doc:"standard, standard-ed25519, stripe, github, wechatpay, alipay or jws."`
	Headers   []string      `json:"headers,omitempty" doc:"The headers that it writes."`
	Algorithm string        `json:"algorithm"`
	Signed    string        `json:"signed" doc:"The text that is signed, with names of headers in braces."`
	Warning   string        `json:"warning,omitempty" doc:"What the scheme does not protect from."`
	Keys      []ReceiverKey `json:"keys" doc:"The public keys, those that will sign later included. Empty for standard, stripe and github, whose keys are secrets."`
}

// ReceiverKey is a public key.
type ReceiverKey struct {
	ID          string `json:"id" doc:"Its kid in the key set; of wechatpay the serial number."`
	Signs       bool   `json:"signs" doc:"It signs now."`
	PublicKey   string `json:"public_key" doc:"In PEM."`
	Certificate string `json:"certificate,omitempty" doc:"In PEM, if one is configured."`
	Standard    string `json:"standard,omitempty" doc:"whpk_ and base64, of an Ed25519 key."`
}

// secret serves GET /v1/routes/{name}/secret. Who has one of these keys can
// forge callbacks for its receiver, so a producer's token does not read them.
func (a *api) secret(w http.ResponseWriter, r *http.Request, at site) error {
	if at.Prefix != "" {
		return problem(http.StatusForbidden,
			"receivers' keys are handed out to clients without a prefix only: with one, a callback can be forged")
	}
	q, p := queryOf(r, secretParams)
	if p != nil {
		return p
	}
	rt, err := a.routeNamed(at.param, at.caller)
	if err != nil {
		return err
	}
	out, err := receiverSecret(rt, q.Get("host"), q.Get("audience"))
	if err != nil {
		return err
	}
	a.operated(r, at, audit.Entry{Action: audit.Secret, Route: rt.Name, Prefix: rt.Prefix, Detail: "of " + cmp.Or(out.Host, out.Audience,
		"all receivers")}, nil)
	return writeJSON(w, http.StatusOK, out)
}

// receiverSecret lists what one receiver of the route verifies with.
func receiverSecret(rt *route.Route, host, audience string) (*ReceiverSecret, error) {
	signing := rt.Signing()
	own, hmac := false, signing.HMAC() // own: each receiver has keys of its own
	switch {
	case rt.Target.Kind != route.KindFixed && rt.Target.Kind != route.KindNotice:
		return nil, problem(http.StatusConflict, "the target of route %s is %s, whose notices are not signed", rt.Name, rt.Target.Kind)
	case len(signing.Schemes) == 0:
		return nil, problem(http.StatusConflict, "route %s has no secret, so its callbacks are not signed", rt.Name)
	case hmac && signing.Per == sign.PerRoute && !slices.ContainsFunc(signing.Schemes, asymmetric):
		return nil, problem(http.StatusConflict, "route %s signs with its own secrets, which are in the configuration; "+
			"keys of single receivers there are with SIGN_PER host or audience", rt.Name)
	default:
		own = hmac && signing.Per != sign.PerRoute
	}

	out := &ReceiverSecret{Route: rt.Name, Secrets: []string{}}
	if hmac {
		out.SignPer = signing.Per
	}
	var f codec.Faults
	if !own {
		text := fmt.Sprintf("route %s has the same keys for all receivers: want no host and no audience", rt.Name)
		wants(&f, paramHost, host, host == "", text)
		wants(&f, paramAudience, audience, audience == "", text)
	} else {
		out.derive(&f, rt, host, audience)
	}
	if p := refusal(f); p != nil {
		return nil, p
	}
	out.schemes(signing)
	return out, nil
}

func asymmetric(s sign.Scheme) bool { return !s.HMAC() }

// derive fills in the receiver and its keys.
func (out *ReceiverSecret) derive(f *codec.Faults, rt *route.Route, host, audience string) {
	derive := func(s sign.Secret) sign.Secret { return s.ForAudience(audience) }
	if out.SignPer == sign.PerAudience {
		out.Audience = audience
		wants(f, paramAudience, audience, audience != "" && host == "" && notice.CheckAudience(audience) == nil,
			fmt.Sprintf("route %s signs for each audience: "+
				"want audience=, 1 to 128 letters, digits, '_', '.', '~' or '-', and no host", rt.Name))
	} else {
		var err error
		out.Host, err = notice.Host(host)
		derive = func(s sign.Secret) sign.Secret { return s.ForHost(out.Host) }
		wants(f, paramHost, host, host != "" && audience == "" && err == nil,
			fmt.Sprintf("route %s signs for each host: want host=, such as shop.example, "+
				"without scheme, port and path, and no audience", rt.Name))
	}
	for _, s := range rt.Secrets {
		out.Secrets = append(out.Secrets, derive(s).Reveal())
	}
}

// schemes fills in what the receiver needs for each scheme.
func (out *ReceiverSecret) schemes(signing *sign.Settings) {
	for _, r := range signing.Recipes() {
		s := ReceiverScheme{Scheme: string(r.Scheme), Headers: r.Headers, Algorithm: r.Algorithm, Signed: r.Signed, Warning: r.Warning,
			Keys: []ReceiverKey{}}
		first := true
		for _, k := range signing.Keys {
			if r.Scheme.Fits(k.Type) {
				s.Keys = append(s.Keys, ReceiverKey{ID: k.ID, Signs: first, PublicKey: k.PublicPEM(), Certificate: k.Certificate(),
					Standard: k.Public()})
				first = false
			}
		}
		out.Schemes = append(out.Schemes, s)
	}
}

// wants notes a parameter that is missing or not right.
func wants(f *codec.Faults, p parameter, given string, right bool, want string) {
	if !right {
		f.Add("query."+p.name, codec.Clip(given, 100), "%s", want)
	}
}
