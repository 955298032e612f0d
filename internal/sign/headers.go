package sign

import (
	"fmt"
	"slices"
	"strings"
)

// SignatureHeader is the header of standard and standard-ed25519.
const SignatureHeader = "webhook-signature"

// Headers are the names of schemes' headers where they differ from the usual ones. That of
// wechatpay is the part before the first hyphen of its four headers.
type Headers map[Scheme]string

var usualHeaders = Headers{Stripe: "notifier-signature", GitHub: "x-hub-signature-256", WechatPay: "wechatpay", JWS: "webhook-jws"}

// Of lists the headers that the scheme writes; of wechatpay in the order timestamp, nonce,
// signature, serial.
func (h Headers) Of(scheme Scheme) []string {
	name := h[scheme]
	if name == "" {
		name = usualHeaders[scheme]
	}

	switch scheme {
	case WechatPay:
		if name == strings.ToLower(name) {
			return []string{name + "-timestamp", name + "-nonce", name + "-signature", name + "-serial"}
		}
		return []string{name + "-Timestamp", name + "-Nonce", name + "-Signature", name + "-Serial"}
	case Standard, StandardEd25519:
		return []string{SignatureHeader}
	case Alipay:
		return nil
	default:
		return []string{name}
	}
}

// String spells the headers as ParseHeaders reads them, in the order of Schemes.
func (h Headers) String() string {
	var parts []string
	for _, scheme := range Schemes {
		if h[scheme] != "" {
			parts = append(parts, string(scheme)+":"+h[scheme])
		}
	}

	return strings.Join(parts, ",")
}

// Fold is a header name as servers may see it: many make no difference between upper and
// lower case, or between - and _.
func Fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// ParseHeaders reads scheme:Name,… Requests have the names in this spelling. reserved reports
// whether a name belongs to HTTP or to the service.
func ParseHeaders(s string, reserved func(name string) bool) (Headers, error) {
	out := Headers{}
	for part := range strings.SplitSeq(s, ",") {
		before, name, ok := strings.Cut(strings.TrimSpace(part), ":")
		scheme, name := Scheme(strings.ToLower(strings.TrimSpace(before))), strings.TrimSpace(name)
		switch {
		case !ok || usualHeaders[scheme] == "":
			return nil, fmt.Errorf("%.60q is not scheme:Name, where scheme is stripe, github, wechatpay or jws", part)
		case out[scheme] != "":
			return nil, fmt.Errorf("%s is given twice", scheme)
		case name == "" || len(name) > 64 || strings.ContainsFunc(name, notNameRune):
			return nil, fmt.Errorf("%.80q is not a header name of 1 to 64 letters, digits and hyphens", name)
		}

		out[scheme] = name
		usual := Headers(nil).Of(scheme)
		taken := func(h string) bool { return reserved(h) && !slices.Contains(usual, strings.ToLower(h)) }
		if names := out.Of(scheme); slices.ContainsFunc(names, taken) {
			h := names[slices.IndexFunc(names, taken)]
			return nil, fmt.Errorf("%s is a header of HTTP or of this service; want another name", h)
		}
	}

	return out, nil
}

func notNameRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
}

// Clash returns a header that two of the schemes write with different meanings, empty if
// there is none.
func (h Headers) Clash(schemes []Scheme) string {
	seen := map[string]Scheme{}
	for _, scheme := range schemes {
		for _, name := range h.Of(scheme) {
			other, taken := seen[Fold(name)]
			if taken && !(strings.HasPrefix(string(scheme), "standard") && strings.HasPrefix(string(other), "standard")) {
				return name
			}

			seen[Fold(name)] = scheme
		}
	}

	return ""
}
