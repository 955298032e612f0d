package sign

import (
	"fmt"
	"slices"
	"strings"
)

// SignatureHeader is the header of standard and standard-ed25519.
const SignatureHeader = "webhook-signature"

// Headers are the names of schemes' headers where they differ from the usual ones: one for each header, separated by |,
// or for wechatpay the part before the first hyphen of its four headers, and for standard the header of the signature.
type Headers map[Scheme]string

var usualHeaders = Headers{Standard: SignatureHeader, StandardEd25519: SignatureHeader, Stripe: "notifier-signature",
	GitHub: "x-hub-signature-256", WechatPay: "wechatpay", JWS: "webhook-jws"}

// roles are the headers of schemes with several. Without names for id and timestamp, standard has only the signature's: every
// callback has webhook-id and webhook-timestamp.
var roles = map[Scheme][]string{Standard: {"id", "timestamp", "signature"}, StandardEd25519: {"id", "timestamp", "signature"},
	WechatPay: {"timestamp", "nonce", "signature", "serial"}}

// Of lists the headers that the scheme writes, in the order of roles.
func (h Headers) Of(scheme Scheme) []string {
	name := h[scheme]
	if name == "" {
		name = usualHeaders[scheme]
	}

	names := strings.Split(name, "|")
	switch {
	case name == "":
		return nil
	case scheme != WechatPay || len(names) > 1:
		return names
	case name == strings.ToLower(name):
		return []string{name + "-timestamp", name + "-nonce", name + "-signature", name + "-serial"}
	}

	return []string{name + "-Timestamp", name + "-Nonce", name + "-Signature", name + "-Serial"}
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

// ParseHeaders reads scheme:Name,… or scheme:Name|Name,… Requests have the names in this spelling. reserved reports
// whether a name belongs to HTTP or to the service.
func ParseHeaders(s string, reserved func(name string) bool) (Headers, error) {
	out := Headers{}
	for part := range strings.SplitSeq(s, ",") {
		before, name, ok := strings.Cut(strings.TrimSpace(part), ":")
		scheme, name := Scheme(strings.ToLower(strings.TrimSpace(before))), strings.TrimSpace(name)
		switch {
		case !ok || usualHeaders[scheme] == "":
			return nil, fmt.Errorf("%.60q is not scheme:Name, where scheme is standard, standard-ed25519, stripe, github, wechatpay or jws", part)
		case out[scheme] != "":
			return nil, fmt.Errorf("%s is given twice", scheme)
		}

		if err := checkNames(scheme, strings.Split(name, "|")); err != nil {
			return nil, err
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

// checkNames checks the names of a scheme's headers.
func checkNames(scheme Scheme, names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if name == "" || len(name) > 64 || strings.ContainsFunc(name, notNameRune) {
			return fmt.Errorf("%.80q is not a header name of 1 to 64 letters, digits and hyphens", name)
		}
		if seen[Fold(name)] {
			return fmt.Errorf("%s has the header %s twice", scheme, name)
		}

		seen[Fold(name)] = true
	}

	if all := roles[scheme]; len(names) > 1 && len(names) != len(all) {
		if all == nil {
			return fmt.Errorf("%s has one header; want one name", scheme)
		}
		return fmt.Errorf("%s has %d names; want one, or one each for %s, separated by |", scheme, len(names), strings.Join(all, ", "))
	}

	return nil
}

func notNameRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
}

// Clash returns a header that two of the schemes write with different meanings, empty if
// there is none. Both schemes of Standard Webhooks write the same id and time, and their signatures into one header.
func (h Headers) Clash(schemes []Scheme) string {
	seen := map[string]string{}
	for _, scheme := range schemes {
		names := h.Of(scheme)
		for i, name := range names {
			meaning := name + " " + string(scheme)
			if scheme == Standard || scheme == StandardEd25519 {
				meaning = fmt.Sprint(name, len(names)-i)
			}

			if other := seen[Fold(name)]; other != "" && other != meaning {
				return name
			}

			seen[Fold(name)] = meaning
		}
	}

	return ""
}
