package clienttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

var prefixes = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,64}(:[A-Za-z0-9_.~-]{1,64}){0,2}$`)

// portalLink makes a link. It leads nowhere: there are no pages here.
func (s *Service) portalLink(r *http.Request, body []byte) (int, any, *problem) {
	m, p := fields(body, "body.", "prefix", "host", "audience", "ttl")
	if p != nil {
		return 0, nil, p
	}
	var prefix, host, audience string
	for name, to := range map[string]*string{"prefix": &prefix, "host": &host, "audience": &audience} {
		if raw := m[name]; raw != nil && json.Unmarshal(raw, to) != nil {
			return 0, nil, wrongField("body."+name, "want a string")
		}
	}
	life := 8 * time.Hour
	if raw := m["ttl"]; raw != nil {
		d, err := duration(raw)
		if life = d; err != nil || d < time.Minute || d > 720*time.Hour {
			return 0, nil, wrongField("body.ttl", "want a duration from 1m to 720h")
		}
	}
	switch {
	case !prefixes.MatchString(prefix):
		return 0, nil, wrongField("body.prefix", "want app, app:module or app:module:type")
	case strings.ContainsAny(host, "/@?#:"):
		return 0, nil, wrongField("body.host", "want a host such as shop.example, without scheme, port and path")
	case audience != "" && !audiences.MatchString(audience):
		return 0, nil, wrongField("body.audience", "want 1 to 128 letters, digits, '_', '.', '~' or '-'")
	}
	host = hostOf(host)
	s.links++
	id := fmt.Sprintf("CLIENTTEST%06d", s.links)
	until := s.now.Add(life)
	if s.linked == nil {
		s.linked = map[string]string{}
	}
	s.linked[id] = prefix
	v := map[string]any{"id": id, "url": s.URL + "/ui/portal/" + id, "prefix": prefix, "expires_at": stamp(until.Truncate(time.Second)),
		"warning": "no client is configured, so whoever reaches the service sees everything without this link"}
	detail := "link " + id
	if host != "" {
		v["host"] = host
		detail += ", of host " + host
	}
	if audience != "" {
		v["audience"] = audience
		detail += ", of audience " + audience
	}
	s.enter(r, "portal-link", prefix, map[string]any{"detail": detail + ", until " + until.UTC().Format(time.RFC3339)})
	return http.StatusCreated, v, nil
}

func (s *Service) revokeLink(r *http.Request, _ []byte) (int, any, *problem) {
	id := r.PathValue("id")
	prefix, ok := s.linked[id]
	if !ok {
		return 0, nil, failed(http.StatusNotFound, "no link has this id: it has ended, was revoked, or was never made")
	}
	delete(s.linked, id)
	s.enter(r, "portal-revoke", prefix, map[string]any{"detail": "link " + id})
	return http.StatusOK, map[string]any{"id": id, "revoked": true}, nil
}
