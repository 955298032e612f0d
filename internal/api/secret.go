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
	paramAudience = parameter{"audience", "The audience of its notices, if the route signs for each audience.", "m17"}
	secretParams  = []parameter{paramHost, paramAudience}
)

// ReceiverSecret answers GET /v1/routes/{name}/secret.
type ReceiverSecret struct {
	Route    string           `json:"route" doc:"The route's name."`
	SignPer  sign.Per         `json:"sign_per,omitempty" doc:"The owner of the key that signs with standard, stripe, github, sorted and sorted-jeepay: route, host, audience or host,route. Absent if none of these schemes signs."`
	Host     string           `json:"host,omitempty" doc:"The normalized host, from which the key is derived: lower case, punycode, without final dot."`
	Audience string           `json:"audience,omitempty"`
	Secrets  []string         `json:"secrets" doc:"The keys of this receiver, as whsec_ and base64, newest first: one for each secret of the route, which has several during a rotation. Empty if all receivers have the same keys."`
	Schemes  []ReceiverScheme `json:"schemes" doc:"How callbacks are signed; each scheme signs every callback."`
}

// ReceiverScheme describes how a receiver verifies one scheme.
type ReceiverScheme struct {
	Scheme    string        `json:"scheme" doc:"standard, standard-ed25519, stripe, github, wechatpay, alipay, jws, sorted or sorted-jeepay."`
	Headers   []string      `json:"headers,omitempty" doc:"The headers of the scheme."`
	Algorithm string        `json:"algorithm"`
	Signed    string        `json:"signed" doc:"The text that is signed, with names of headers in braces."`
	Warning   string        `json:"warning,omitempty" doc:"An attack that the scheme does not prevent."`
	TextKey   string        `json:"text_key,omitempty" doc:"The receiver's key of sorted and sorted-jeepay. Absent if all receivers have the same key."`
	Keys      []ReceiverKey `json:"keys" doc:"The public keys, including keys for later signatures. Empty for standard, stripe, github, sorted and sorted-jeepay, whose keys are secret."`
}

// ReceiverKey is a public key.
type ReceiverKey struct {
	ID          string `json:"id" doc:"The kid in the key set; for wechatpay the serial number."`
	Signs       bool   `json:"signs" doc:"true: the key signs now."`
	PublicKey   string `json:"public_key" doc:"In PEM."`
	Certificate string `json:"certificate,omitempty" doc:"In PEM, if configured."`
	Standard    string `json:"standard,omitempty" doc:"An Ed25519 key as whpk_ and base64."`
}

// secret serves GET /v1/routes/{name}/secret. The holder of a receiver's key can forge callbacks to that receiver, so a
// producer's token must not read it.
func (a *api) secret(w http.ResponseWriter, r *http.Request, at site) error {
	if at.Prefix != "" {
		return problem(http.StatusForbidden,
			"only clients without a prefix may read receivers' keys: the holder of a key can forge callbacks")
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

// receiverSecret returns the keys and schemes with which one receiver of the route verifies callbacks.
func receiverSecret(rt *route.Route, host, audience string) (*ReceiverSecret, error) {
	signing := rt.Signing()
	own, shared := false, signing.Shared() // own: each receiver has separate keys
	switch {
	case rt.Target.Kind != route.KindFixed && rt.Target.Kind != route.KindNotice:
		return nil, problem(http.StatusConflict, "the target of route %s is %s, whose notices are not signed", rt.Name, rt.Target.Kind)
	case len(signing.Schemes) == 0:
		return nil, problem(http.StatusConflict, "route %s has no secret, so its callbacks are not signed", rt.Name)
	case shared && signing.Per == sign.PerRoute && !slices.ContainsFunc(signing.Schemes, asymmetric):
		return nil, problem(http.StatusConflict, "route %s signs with its own secrets, which are in the configuration; "+
			"keys of single receivers there are with SIGN_PER host or audience", rt.Name)
	default:
		own = shared && signing.Per != sign.PerRoute
	}

	out := &ReceiverSecret{Route: rt.Name, Secrets: []string{}}
	if shared {
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

	out.schemes(signing, own)
	return out, nil
}

func asymmetric(s sign.Scheme) bool { return !s.Shared() }

// derive sets the receiver and its keys.
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

// schemes sets the description of each scheme.
func (out *ReceiverSecret) schemes(signing *sign.Settings, own bool) {
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

		if own && r.Scheme.Text() {
			s.TextKey = signing.TextKey.TextFor(signing.Per, out.Host, out.Audience).Reveal()
		}

		out.Schemes = append(out.Schemes, s)
	}
}

// wants adds the fault of a parameter that is missing or invalid.
func wants(f *codec.Faults, p parameter, given string, right bool, want string) {
	if !right {
		f.Add("query."+p.name, codec.Clip(given, 100), "%s", want)
	}
}
