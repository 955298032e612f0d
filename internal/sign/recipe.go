package sign

import "strings"

// Recipe describes how a receiver verifies a scheme. It contains no key.
type Recipe struct {
	Scheme    Scheme
	Headers   []string // that the scheme writes; lower case
	Algorithm string
	// Signed describes the text that is signed, with the names of headers in braces.
	Signed string
	// Warning is an attack that the scheme does not prevent; empty if none.
	Warning string
}

// The warnings.
const (
	noTime    = "No time is signed: an old callback that is sent again is valid. Deduplicate by the body."
	oneKey    = "One key signs for all receivers: the body must name the receiver, and the receiver must check it."
	sortedSum = "MD5, or HMAC-SHA256 with the same key if the field sign_type says so, in upper-case hex in the field sign"
	checkHost = "One key signs for all receivers: check that host in the protected header is your own."
)

// Recipes lists the recipes of the schemes in use, in their order.
func (s *Settings) Recipes() []Recipe {
	out := make([]Recipe, 0, len(s.Schemes))
	for _, scheme := range s.Schemes {
		r := Recipe{Scheme: scheme}
		for _, name := range s.Headers.Of(scheme) {
			r.Headers = append(r.Headers, strings.ToLower(name))
		}

		r.fill(s)
		out = append(out, r)
	}

	return out
}

// standardText describes the signed text of Standard Webhooks.
func standardText(headers []string) string {
	if len(headers) < len(roles[Standard]) {
		return "{webhook-id}.{webhook-timestamp}.body"
	}
	return "{" + headers[0] + "}.{" + headers[1] + "}.body"
}

func (r *Recipe) fill(s *Settings) {
	const hmacSHA256 = "HMAC-SHA256"
	switch r.Scheme {
	case Standard:
		r.Algorithm, r.Signed = hmacSHA256+" in base64, with the prefix v1 and a comma", standardText(r.Headers)
	case StandardEd25519:
		r.Algorithm, r.Signed = "Ed25519 in base64, with the prefix v1a and a comma", standardText(r.Headers)
	case Stripe:
		r.Algorithm = hmacSHA256 + " in hex, with the prefix v1=; the key is the secret's text"
		r.Signed = "t.body, where t is the time in the header"
	case GitHub:
		r.Algorithm, r.Signed, r.Warning = hmacSHA256+" in hex, with the prefix sha256=; the key is the secret's text", "body", noTime
	case WechatPay:
		r.Algorithm, r.Warning = "RSASSA-PKCS1-v1_5 with SHA-256, base64", oneKey
		r.Signed = "{" + r.Headers[0] + "}\\n{" + r.Headers[1] + "}\\nbody\\n"
	case Alipay:
		r.Algorithm, r.Warning = "RSASSA-PKCS1-v1_5 with SHA-256, base64, in the field sign", noTime+" "+oneKey
		r.Signed = "the form's fields but sign and sign_type, decoded, sorted by name, as name=value joined with &"
	case Sorted, SortedJeepay:
		r.Algorithm, r.Warning = sortedSum, noTime
		r.Signed = "the fields but sign and empty ones, sorted by name, as name=value joined with &, then &key= and the key"
		if r.Scheme == SortedJeepay {
			r.Signed = "the fields but sign and empty ones, as name=value, sorted without case, joined with &, then &key= and the key"
			r.Algorithm = strings.Replace(sortedSum, "sign_type", "signType", 1)
		}
	case JWS:
		r.Algorithm, r.Warning = "detached JWS, EdDSA", checkHost
		if k := s.Key(JWS); k != nil {
			r.Algorithm = "detached JWS, " + algorithm(k.Type)
		}

		r.Signed = "the protected header in base64url, a dot, body"
	}
}
