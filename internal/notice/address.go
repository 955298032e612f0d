package notice

import "net/url"

// PasswordMissing reports whether a password may have been removed from a URL that was shown or stored. A notice that
// is sent to such a URL cannot be restored. fromHistory is true if the URL comes from the history, the database of
// finalized notices, which stores no password. Elsewhere, xxxxx replaces a removed password.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}

	// A user without a password may have had none. In the history this is not known, so it counts as removed.
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
