package config

import (
	"fmt"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// onDead reads whether the notices of the route's hook contain the body of the dead letter. The hook
// itself is found once all routes are read.
func (rr *routeReader) onDead(c *Config) {
	raw := &rr.raw
	rr.hookOf[rr.rt.Name] = raw.OnDead
	rr.formats[rr.rt.Name] = formatVars{raw.OnDeadFormat, raw.FormatSecret}
	rr.onDown()
	switch {
	case raw.OnDeadBody == "none":
	case raw.OnDeadBody != "include":
		rr.bad("ON_DEAD_BODY", raw.OnDeadBody, "want none or include")
	case raw.OnDead == "":
		rr.bad("ON_DEAD_BODY", raw.OnDeadBody, "needs "+rr.prefix+"ON_DEAD, the name of the route that gets a notice of each dead letter")
	default:
		rr.rt.OnDeadBody = c.MaxBody
	}
}

// onDown reads after what time the hook gets a notice of a failing receiver.
func (rr *routeReader) onDown() {
	switch raw := &rr.raw; {
	case raw.OnDown == "":
	case raw.OnDead == "":
		rr.bad("ON_DOWN", raw.OnDown, "needs "+rr.prefix+"ON_DEAD, the name of the route that gets a notice of each failing receiver")
	default:
		rr.rt.OnDown = rr.durationAs(rr.prefix+"ON_DOWN", raw.OnDown, time.Second, 7*24*time.Hour)
	}
}

// hooks finds the route of each ON_DEAD, and checks that its notices can be delivered there.
func (r *reader) hooks(c *Config) {
	for _, rt := range c.Routes {
		name := r.hookOf[rt.Name]
		if name == "" {
			continue
		}

		hook, text := r.hook(c, rt, strings.ToLower(name))
		if text != "" {
			r.add(routePrefix(rt.Name)+"ON_DEAD", name, text)
			continue
		}

		rt.OnDead = hook
	}

	r.robots(c)
}

// hook returns the route of that name as a hook of rt, or why it cannot be that.
func (r *reader) hook(c *Config, rt *route.Route, name string) (hook *route.Route, wrong string) {
	const want = "want the name of another route, whose target is an address, list:<key>, stream:<key> or log"
	for _, other := range c.Routes {
		if other.Name == name {
			hook = other
		}
	}

	switch {
	case hook == nil:
		return nil, "is not in " + Prefix + "ROUTES; " + want
	case hook == rt:
		return nil, "is this route, and a dead letter would cause the next one; " + want
	case r.hookOf[name] != "":
		return nil, "has " + routePrefix(name) + "ON_DEAD, and a dead letter of a hook has no hook; remove that, or " + want
	case hook.Target.Kind == route.KindNotice:
		return nil, "has the target notice, and the notices of a hook bring no url; " + want
	}

	if hook.Prefix == "" { // reported there
		return hook, ""
	}

	key := keys.Fill(hook.Prefix, "dead") + ":x"
	for _, other := range c.Routes {
		if keys.HasPrefix(key, other.Prefix) && len(other.Prefix) > len(hook.Prefix) {
			return nil, fmt.Sprintf("would get notices such as %s, which belong to route %s; want another prefix of one of the two", key, other.Name)
		}
	}

	if misfits := hook.Misfits(&notice.Content{Body: []byte("{}")}); len(misfits) > 0 && hook.Target.Kind != "" {
		return nil, "cannot deliver the notices of a hook: their " + misfits[0].Field + " " + misfits[0].Text + "; " + want
	}

	return hook, ""
}

// deadText describes how long, and how many, dead letters of a route are kept.
func deadText(rt *route.Route) (text string) {
	if rt.DeadRetention > 0 {
		text = ", dead letters removed after " + notice.Short(rt.DeadRetention)
	}

	if rt.DeadKeep > 0 {
		text += fmt.Sprintf(", at most %s", notice.Count(rt.DeadKeep, "dead letter"))
	}

	return text
}

// hookText describes the hook of a route.
func hookText(rt *route.Route) string {
	if rt.OnDead == nil {
		return ""
	}

	text := ", a notice of each dead letter"
	if rt.OnDeadBody > 0 {
		text += " with its body"
	}

	if rt.OnDown > 0 {
		text += " and of each receiver that fails for " + notice.Short(rt.OnDown)
	}

	if rt.OnDead.Robot != nil {
		text += ", as messages for " + string(rt.OnDead.Robot.Format) + ","
	}

	return text + " to route " + rt.OnDead.Name
}
