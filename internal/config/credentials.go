package config

import (
	"net/url"
	"strings"
)

// WithoutCredentials returns environ, for child processes, without this service's secrets. It removes every NOTIFIER_
// variable that is unknown, is a secret, or contains a password. It keeps those that name the file of a secret.
func WithoutCredentials(environ []string) []string {
	open := openNames()
	var out []string
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, Prefix) || open(name) && !hasPassword(value) {
			out = append(out, v)
		}
	}

	return out
}

// openNames returns a function that reports whether a variable's value may be shown.
func openNames() func(name string) bool {
	whole := map[string]bool{Prefix + "URL": true, Prefix + "TOKEN_FILE": true}
	ends := map[string][]string{} // endings of names by prefix, for the variables of clients and routes
	for _, v := range Variables() {
		name := v.Name
		if v.Secret {
			name += "_FILE"
		}

		if before, after, ok := strings.Cut(name, "<NAME>"); ok {
			ends[before] = append(ends[before], after)
		} else {
			whole[name] = true
		}
	}

	return func(name string) bool {
		if whole[name] {
			return true
		}

		for before, list := range ends {
			for _, after := range list {
				if strings.HasPrefix(name, before) && strings.HasSuffix(name, after) && len(name) > len(before)+len(after) {
					return true
				}
			}
		}

		return false
	}
}

// hasPassword reports whether a value is an address that contains a user's password.
func hasPassword(value string) bool {
	u, err := url.Parse(value)
	if err != nil {
		return strings.Contains(value, "@")
	}
	if u.User == nil {
		return false
	}

	_, has := u.User.Password()
	return has
}
