package api

import (
	"cmp"
	"fmt"
	"net/http"

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
	Route    string   `json:"route" doc:"The route's name."`
	SignPer  sign.Per `json:"sign_per" doc:"host, audience or host,route."`
	Host     string   `json:"host,omitempty" doc:"As the key is derived for it: lower case, punycode, without final dot."`
	Audience string   `json:"audience,omitempty"`
	Secrets  []string `json:"secrets" doc:"The keys to hand to this receiver, as whsec_ and base64: one for each of the route's secrets, so more than one while those are changed; the newest first."`
}

// secret serves GET /v1/routes/{name}/secret. Who has one of these keys can
// forge callbacks for its receiver, so a producer's token does not read them.
func (a *api) secret(w http.ResponseWriter, r *http.Request, at site) error {
	if at.Prefix != "" {
		return problem(http.StatusForbidden, "receivers' keys are handed out to clients without a prefix only: with one, a callback can be forged")
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
	a.operated(r, at, audit.Entry{Action: audit.Secret, Route: rt.Name, Prefix: rt.Prefix, Detail: "of " + cmp.Or(out.Host, out.Audience)}, nil)
	return writeJSON(w, http.StatusOK, out)
}

func receiverSecret(rt *route.Route, host, audience string) (*ReceiverSecret, error) {
	out := &ReceiverSecret{Route: rt.Name, SignPer: rt.Signs(), Secrets: make([]string, len(rt.Secrets))}
	switch {
	case rt.Target.Kind != route.KindFixed && rt.Target.Kind != route.KindNotice:
		return nil, problem(http.StatusConflict, "the target of route %s is %s, whose notices are not signed", rt.Name, rt.Target.Kind)
	case len(rt.Secrets) == 0:
		return nil, problem(http.StatusConflict, "route %s has no secret, so its callbacks are not signed", rt.Name)
	case out.SignPer == sign.PerRoute:
		return nil, problem(http.StatusConflict, "route %s signs with its own secrets, which are in the configuration; "+
			"keys of single receivers there are with SIGN_PER host or audience", rt.Name)
	}
	var f codec.Faults
	derive := func(s sign.Secret) sign.Secret { return s.ForAudience(audience) }
	if out.SignPer == sign.PerAudience {
		out.Audience = audience
		wants(&f, paramAudience, audience, host == "" && notice.CheckAudience(audience) == nil, fmt.Sprintf("route %s signs for each audience: want audience=, "+
			"1 to 128 letters, digits, '_', '.', '~' or '-', and no host", rt.Name))
	} else {
		var err error
		out.Host, err = notice.Host(host)
		derive = func(s sign.Secret) sign.Secret { return s.ForHost(out.Host) }
		wants(&f, paramHost, host, audience == "" && err == nil, fmt.Sprintf("route %s signs for each host: want host=, such as shop.example, without scheme, "+
			"port and path, and no audience", rt.Name))
	}
	if p := refusal(f); p != nil {
		return nil, p
	}
	for i, s := range rt.Secrets {
		out.Secrets[i] = derive(s).Reveal()
	}
	return out, nil
}

// wants notes a parameter that is missing or not right.
func wants(f *codec.Faults, p parameter, given string, right bool, want string) {
	if !right || given == "" {
		f.Add("query."+p.name, codec.Clip(given, 100), "%s", want)
	}
}
