package notice

import "net/url"

// PasswordMissing reports whether an address had a password that was removed before the address was shown or stored.
// The API shows such a password as xxxxx.
//
// The history removes it and keeps the user. So with fromHistory, a user without a password counts as missing one.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
