package notice

import "net/url"

// PasswordMissing reports whether an address had a password that was removed before the address was shown or stored.
//
// The API replaces a password by xxxxx, so that text counts as missing. The history removes the password and keeps the
// user. So with fromHistory, an address with a user and without a password counts as missing too.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
