package notice

import "strings"

// SecretName reports whether the name of a header or parameter suggests a secret value. It prefers hiding too
// much to hiding too little.
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
