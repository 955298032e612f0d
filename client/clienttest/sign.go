package clienttest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// signPers are the values of Route.SignPer.
var signPers = []string{"route", "host", "audience", "host,route"}

var audiences = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,128}$`)

// derive is one receiver's key for each of the secrets.
func derive(secrets, label string) []string {
	var out []string
	for s := range strings.SplitSeq(secrets, ",") {
		encoded := strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(s), "whsec_"), "=")
		key, err := base64.RawStdEncoding.DecodeString(encoded)
		if err != nil {
			panic("clienttest: " + err.Error()) // New has checked it
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("notifier " + label))
		out = append(out, "whsec_"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return out
}

// signers are the secrets that sign a notice's callback.
func (n *notice) signers(u *url.URL) []string {
	r := n.route
	switch r.SignPer {
	case "host":
		return derive(r.Secret, "host:"+hostOf(u.Hostname()))
	case "host,route":
		return append(derive(r.Secret, "host:"+hostOf(u.Hostname())), r.Secret)
	case "audience":
		return derive(r.Secret, "audience:"+n.audience)
	}
	return []string{r.Secret}
}

// hostOf is a host as keys are derived over it. Names that need punycode stay as
// they are: the standard library has none.
func hostOf(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return a.String()
	}
	return host
}

// standardScheme describes the scheme that the fake signs with.
var standardScheme = []map[string]any{{"scheme": "standard", "headers": []string{"webhook-signature"}, "algorithm": "HMAC-SHA256, base64, after v1,",
	"signed": "{webhook-id}.{webhook-timestamp}.body", "keys": []any{}}}

// secret answers with the keys to hand to one receiver.
func (s *Service) secret(r *http.Request, _ []byte) (int, any, *problem) {
	rt := s.routeNamed(r.PathValue("name"))
	host, audience := r.URL.Query().Get("host"), r.URL.Query().Get("audience")
	switch {
	case rt == nil:
		return 0, nil, noRoute(r.PathValue("name"))
	case !slices.Contains([]string{"notice", "http"}, targetKind(rt.Target)) || rt.Secret == "" || rt.SignPer == "route":
		return 0, nil, failed(http.StatusConflict, "route %s signs with no keys of single receivers", rt.Name)
	case rt.SignPer == "audience" && (host != "" || !audiences.MatchString(audience)):
		return 0, nil, wrongField("query.audience", "route %s signs for each audience: want audience=, and no host", rt.Name)
	case rt.SignPer == "audience":
		s.enter(r, "secret", rt.Prefix, map[string]any{"route": rt.Name, "detail": "of " + audience})
		return http.StatusOK, map[string]any{"route": rt.Name, "sign_per": rt.SignPer, "audience": audience,
			"secrets": derive(rt.Secret, "audience:"+audience), "schemes": standardScheme}, nil
	case audience != "" || host == "" || strings.ContainsAny(host, "/@?#"):
		return 0, nil, wrongField("query.host", "route %s signs for each host: want host=, such as shop.example, and no audience", rt.Name)
	}
	s.enter(r, "secret", rt.Prefix, map[string]any{"route": rt.Name, "detail": "of " + hostOf(host)})
	return http.StatusOK, map[string]any{"route": rt.Name, "sign_per": rt.SignPer, "host": hostOf(host),
		"secrets": derive(rt.Secret, "host:"+hostOf(host)), "schemes": standardScheme}, nil
}
