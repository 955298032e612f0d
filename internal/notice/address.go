package notice

import "net/url"

// PasswordMissing reports whether the password of an address was removed when the
// address was shown. The API shows xxxxx in place of a password. The history stores the
// user only, so fromHistory makes an address with a user and no password one of these.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
