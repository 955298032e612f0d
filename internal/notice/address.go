package notice

import "net/url"

// PasswordMissing reports whether an address had a password that was removed before the address was shown or
// stored. The API shows xxxxx in place of a password. The history stores the user without the password. So if
// the address is from the history, any address with a user and no password is reported.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
