package fleet

import "time"

// MayStart reports whether this instance may still start an attempt for a claim. token is the token of the claim. It
// begins with the id that [Fleet.ClaimID] returned. MayStart returns false if another instance may have reclaimed the
// claim, because this instance was, or may have been, declared dead. The caller must then release the claim.
func (f *Fleet) MayStart(token string) bool {
	if f == nil || under(token, f.unknownID) { // no instance can declare that id dead
		return true
	}

	// The order matters. A rename changes the id before it makes this instance trusted again.
	if !f.trusted() {
		return false
	}

	return !f.Lost(token)
}

// Lost reports whether other instances have declared this one dead since the claim with that token, so that they may have
// reclaimed the claim.
func (f *Fleet) Lost(token string) bool {
	return f != nil && !under(token, f.unknownID) && !under(token, f.view.Load().id)
}

// under reports whether a token was made under an id.
func under(token, id string) bool {
	return len(token) > len(id) && token[:len(id)] == id && token[len(id)] == '-'
}

// trusted reports whether no other instance can have declared this one dead.
func (f *Fleet) trusted() bool {
	confirmed := f.confirmed.Load()
	return f.o.Takeover == 0 || confirmed == 0 || time.Since(f.begun)-time.Duration(confirmed) < f.o.Takeover
}
