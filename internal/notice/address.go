package notice

import "net/url"

// PasswordMissing reports whether an address had a password that was removed before the address was shown or stored.
// The API shows xxxxx instead. The history keeps only the user, so fromHistory makes a user without a password count
// too.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
