package notice

import "strings"

// SecretName reports whether a header's or parameter's name says that its value
// is a secret. Too much is better than too little.
func SecretName(name string) bool {
	l := strings.ToLower(name)
	for _, w := range [...]string{"auth", "cookie", "token", "secret", "passw", "pwd", "apikey", "api-key", "api_key",
		"access", "credential", "signature", "private", "session"} {
		if strings.Contains(l, w) {
			return true
		}
	}
	return l == "key" || l == "sig" || l == "sign" || strings.HasSuffix(l, "-key") || strings.HasSuffix(l, "_key")
}
