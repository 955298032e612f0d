package config

import (
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/route"
)

// formatVars are variables of one route: ON_DEAD_FORMAT, and FORMAT_SECRET of a route that is a hook.
type formatVars struct{ format, secret string }

// robots gives each hook the format that the routes with this hook ask for.
func (r *reader) robots(c *Config) {
	asked := map[*route.Route]*route.Route{} // by hook: the first route that asks
	for _, rt := range c.Routes {
		variable, text := routePrefix(rt.Name)+"ON_DEAD_FORMAT", r.formats[rt.Name].format
		f, err := route.ParseAlarmFormat(text)
		switch first := asked[rt.OnDead]; {
		case err != nil:
			r.add(variable, text, err.Error())
		case rt.OnDead == nil && f != route.AlarmJSON && r.hookOf[rt.Name] == "":
			r.add(variable, text, "needs "+routePrefix(rt.Name)+"ON_DEAD, the name of the route that gets the messages")
		case rt.OnDead == nil:
		case first == nil:
			asked[rt.OnDead] = rt
			if f != route.AlarmJSON {
				r.robot(rt, f)
			}
		case r.formats[first.Name].format != text:
			r.add(variable, text, "differs from that of route "+first.Name+", which has the same ON_DEAD; want one format, or another route")
		}

		if rt.OnDead != nil && f != route.AlarmJSON && rt.OnDeadBody > 0 {
			r.add(routePrefix(rt.Name)+"ON_DEAD_BODY", "include", "is for ON_DEAD_FORMAT=json; a message contains no body, remove it")
		}
	}

	for _, rt := range c.Routes { // with a wrong hook or format, it is unknown which routes have a robot
		if v := routePrefix(rt.Name) + "ON_DEAD"; r.errs.Of(v) || r.errs.Of(v+"_FORMAT") {
			return
		}
	}

	for _, rt := range c.Routes {
		if r.formats[rt.Name].secret != "" && rt.Robot == nil && !r.errs.Of(routePrefix(rt.Name)+"FORMAT_SECRET") {
			r.add(routePrefix(rt.Name)+"FORMAT_SECRET", "", "(not shown) is for a route that another one names in ON_DEAD, with the "+
				"ON_DEAD_FORMAT dingtalk or feishu; remove it")
		}
	}
}

// robot makes the hook of a route send messages. The format sets the acknowledgement, and the rate if that is not lower.
func (r *reader) robot(rt *route.Route, f route.AlarmFormat) {
	hook, prefix := rt.OnDead, routePrefix(rt.OnDead.Name)
	if hook.Target.Kind != route.KindFixed {
		r.add(routePrefix(rt.Name)+"ON_DEAD_FORMAT", string(f), "needs "+prefix+"TARGET to be the address of the team's robot, or "+
			prefix+"TARGET_FILE with the name of a file that holds it")
		return
	}

	if ack, set := r.value(prefix + "ACK"); set {
		r.add(prefix+"ACK", ack, "is set by the format "+string(f)+" of its messages; remove it")
	}

	if hook.Method != "POST" {
		r.add(prefix+"METHOD", hook.Method, "want POST for messages in the format "+string(f))
	}

	if hook.Rate > route.AlarmRate {
		r.add(prefix+"RATE", strconv.FormatFloat(hook.Rate*60, 'g', -1, 64)+"/m", "want at most 15/m for messages in the format "+string(f))
	}

	secret := r.formats[hook.Name].secret
	if text := wrongSecret(f, secret); text != "" {
		r.add(prefix+"FORMAT_SECRET", "", text)
	}

	hook.Ack, _ = route.ParseAck(f.Ack()) // a test parses them all
	if hook.Rate == 0 {
		hook.Rate = route.AlarmRate
	}

	hook.Robot, hook.Target.Secret = route.NewRobot(f, hook.Target.URL, secret), true
}

// wrongSecret returns the problem of a key for messages; empty if it has none.
func wrongSecret(f route.AlarmFormat, secret string) string {
	switch {
	case secret == "":
	case !f.Signs():
		return "(not shown) is for dingtalk and feishu; remove it, the address is the only secret of " + string(f)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "(not shown) want the key that the robot's page shows, without blanks"
	}
	return ""
}

// alarm reads the address for what Redis cannot carry.
func (r *reader) alarm(raw *serviceVars) *route.Route {
	f, wrong := route.ParseAlarmFormat(raw.AlarmFormat)
	if wrong != nil {
		r.add(Prefix+"ALARM_FORMAT", raw.AlarmFormat, wrong.Error())
	} else if text := wrongSecret(f, raw.AlarmSecret); text != "" {
		r.add(Prefix+"ALARM_SECRET", "", text)
	}

	if raw.AlarmURL == "" {
		if wrong == nil && (f != route.AlarmJSON || raw.AlarmSecret != "") && !r.errs.Of(Prefix+"ALARM_URL") {
			r.add(Prefix+"ALARM_URL", "", "is missing; want the address that gets the messages, or remove ALARM_FORMAT and ALARM_SECRET")
		}
		return nil
	}

	t, err := route.ParseTarget(raw.AlarmURL)
	if err != nil || t.Kind != route.KindFixed {
		r.add(Prefix+"ALARM_URL", "", "(not shown) want http://… or https://…")
		return nil
	}

	t.Secret = true
	ack, _ := route.ParseAck(f.Ack())
	return &route.Route{Name: "alarm", Prefix: "alarm", Target: t, Ack: ack, Timeout: defaultTimeout, HostConcurrency: 1,
		Concurrency: 1, Robot: route.NewRobot(f, t.URL, raw.AlarmSecret)}
}

// publicURL reads the address of the pages for people.
func (r *reader) publicURL(text string) string {
	if text == "" {
		return ""
	}

	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		r.wrong("PUBLIC_URL", "", "an address such as https://notifier.example, without user, query and fragment")
		return ""
	}

	return strings.TrimRight(text, "/")
}
