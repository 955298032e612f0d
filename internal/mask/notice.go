package mask

import "notifier/internal/notice"

// Notice returns the content of a notice with these rules.
func (r *Rules) Notice(n *notice.Notice) *View {
	return r.View(Sent{n.EffectiveType(), n.Body, n.URL, n.Headers})
}
