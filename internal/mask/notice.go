package mask

import "notifier/internal/notice"

// Notice returns the content of a notice with these rules.
func (r *Rules) Notice(n *notice.Notice) *View {
	sent := Sent{ContentType: n.EffectiveType(), Body: n.Body, URL: n.URL, Headers: map[string]string{}}
	for _, h := range n.Headers {
		sent.Headers[h.Name] = h.Value
	}

	return r.View(sent)
}
