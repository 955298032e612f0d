package config

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/route"
)

func TestOnDeadNamesRouteThatCanDeliver(t *testing.T) {
	hook := func(settings ...string) map[string]string {
		return with(append([]string{"ROUTES=orders,alarms", "ROUTE_ORDERS_ON_DEAD=Alarms", "ROUTE_ALARMS_PREFIX=ops",
			"ROUTE_ALARMS_TARGET=log"}, settings...)...)
	}
	for _, v := range []struct {
		env  map[string]string
		want string
	}{
		{hook("ROUTE_ALARMS_TARGET=notice"), "has the target notice, and the notices of a hook bring no url; want"},
		{hook("ROUTES=orders,alarms,more", "ROUTE_ALARMS_ON_DEAD=more", "ROUTE_MORE_PREFIX=x", "ROUTE_MORE_TARGET=log"),
			"has NOTIFIER_ROUTE_ALARMS_ON_DEAD, and a dead letter of a hook has no hook; remove that, or want"},
		{hook("ROUTES=orders,alarms,more", "ROUTE_MORE_PREFIX=ops:dead", "ROUTE_MORE_TARGET=log"),
			"would get notices such as ops:dead:dead:x, which belong to route more; want another prefix"},
		{hook("ROUTE_ALARMS_TARGET=https://ops.example/", "ROUTE_ALARMS_SIGN_PER=audience", "ROUTE_ALARMS_SECRET="+secret),
			"cannot deliver the notices of a hook: their audience "},
	} {
		_, err := load(v.env)
		if err == nil || !strings.Contains(err.Error(), "NOTIFIER_ROUTE_ORDERS_ON_DEAD=") || !strings.Contains(err.Error(), v.want) ||
			strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%q: want one problem with %q, have\n%v", v.env, v.want, err)
		}
	}

	for _, target := range []string{"log", "list:dead", "stream:dead", "https://ops.example/dead"} {
		c, err := load(hook("ROUTE_ALARMS_TARGET="+target, "ROUTE_ORDERS_ON_DEAD_BODY=include", "MAX_BODY=64KiB"))
		if err != nil {
			t.Fatal(err)
		}
		if rt := c.Routes[0]; rt.OnDead != c.Routes[1] || rt.OnDeadBody != 64<<10 {
			t.Errorf("%s: %+v", target, rt)
		}
		if text := strings.Join(Describe(c), "\n"); !strings.Contains(text, ", a notice of each dead letter with its body to route alarms") {
			t.Errorf("%s: the hook is not in\n%s", target, text)
		}
		if c.Routes[0].OnDown != 0 {
			t.Errorf("%s: ON_DOWN is %s, want none", target, c.Routes[0].OnDown)
		}
		if c.Routes[1].OnDead != nil || c.Routes[1].OnDeadBody != 0 {
			t.Errorf("%s: the hook has a hook", target)
		}
	}
}

func TestOnDownIsDuration(t *testing.T) {
	set := func(value string) map[string]string {
		return with("ROUTES=orders,alarms", "ROUTE_ORDERS_ON_DEAD=alarms", "ROUTE_ALARMS_PREFIX=ops", "ROUTE_ALARMS_TARGET=log",
			"ROUTE_ORDERS_ON_DOWN="+value)
	}
	c, err := load(set("10m"))
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(Describe(c), "\n"); c.Routes[0].OnDown != 10*time.Minute ||
		!strings.Contains(text, " and of each receiver that fails for 10m to route alarms") {
		t.Errorf("%s in\n%s", c.Routes[0].OnDown, text)
	}
	for _, value := range []string{"0s", "169h", "soon"} {
		if _, err := load(set(value)); err == nil || !strings.Contains(err.Error(), "NOTIFIER_ROUTE_ORDERS_ON_DOWN=") {
			t.Errorf("%s: %v, want an error", value, err)
		}
	}
}

func team(settings ...string) map[string]string {
	return with(append([]string{"ROUTES=orders,alarms,more", "ROUTE_ORDERS_ON_DEAD=alarms", "ROUTE_ORDERS_ON_DEAD_FORMAT=dingtalk",
		"ROUTE_ALARMS_PREFIX=ops", "ROUTE_ALARMS_TARGET=https://oapi.dingtalk.com/robot/send?access_token=hidden-token",
		"ROUTE_MORE_PREFIX=x", "ROUTE_MORE_TARGET=log"}, settings...)...)
}

func TestFormatSetsAcknowledgementAndRate(t *testing.T) {
	c, err := load(team("ROUTE_ALARMS_FORMAT_SECRET=SEChidden", "ROUTE_DEFAULT_ACK=status:204"))
	if err != nil {
		t.Fatal(err)
	}
	hook := c.Routes[1]
	if hook.Ack.String() != "json:errcode=0" || hook.Rate != 0.25 || !hook.Target.Secret || hook.Robot.String() != "dingtalk" {
		t.Errorf("%+v", hook)
	}
	text := strings.Join(Describe(c), "\n")
	if !strings.Contains(text, ", a notice of each dead letter, as messages for dingtalk, to route alarms") ||
		!strings.Contains(text, ", signed by dingtalk") ||
		strings.Contains(text, "hidden") {
		t.Errorf("%s", text)
	}
	for _, f := range []string{"feishu", "wecom", "slack", "teams"} {
		c, err := load(team("ROUTE_ORDERS_ON_DEAD_FORMAT=" + f))
		if err != nil || c.Routes[1].Ack.Kind == route.Ack2xx {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestWrongFormatIsNamed(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"ON_DEAD_FORMAT=":                team("ROUTE_ORDERS_ON_DEAD_FORMAT=telegram", "ROUTE_ALARMS_FORMAT_SECRET=hidden"),
		"needs NOTIFIER_ROUTE_MORE_":     team("ROUTE_MORE_ON_DEAD_FORMAT=slack"),
		"differs from that of route":     team("ROUTE_MORE_ON_DEAD=alarms"),
		"is for ON_DEAD_FORMAT=json":     team("ROUTE_ORDERS_ON_DEAD_BODY=include"),
		"is set by the format dingtalk":  team("ROUTE_ALARMS_ACK=2xx"),
		"want POST":                      team("ROUTE_ALARMS_METHOD=GET"),
		"want at most 15/m":              team("ROUTE_ALARMS_RATE=20/m"),
		"the only secret of slack":       team("ROUTE_ORDERS_ON_DEAD_FORMAT=slack", "ROUTE_ALARMS_FORMAT_SECRET=hidden"),
		"the address of the team":        team("ROUTE_ALARMS_TARGET=log", "ROUTE_ALARMS_FORMAT_SECRET=hidden"),
		"MORE_FORMAT_SECRET":             team("ROUTE_MORE_FORMAT_SECRET=hidden"),
		"NOTIFIER_ALARM_URL: is missing": team("ALARM_FORMAT=slack"),
		"NOTIFIER_ALARM_URL: (not shown": team("ALARM_URL=hidden"),
		"NOTIFIER_ALARM_FORMAT=":         team("ALARM_URL=https://hidden.example/", "ALARM_FORMAT=x"),
		"NOTIFIER_ALARM_SECRET":          team("ALARM_URL=https://hidden.example/", "ALARM_SECRET=hidden"),
		"NOTIFIER_PUBLIC_URL":            team("PUBLIC_URL=notifier.example"),
	} {
		_, err := load(env)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("want one problem with %q, have\n%v", want, err)
		}
	}
	_, err := load(team("ALARM_URL=hidden", "ALARM_FORMAT=x"))
	if err == nil || !strings.Contains(err.Error(), "NOTIFIER_ALARM_FORMAT=") ||
		!strings.Contains(err.Error(), "NOTIFIER_ALARM_URL: (not shown") {
		t.Errorf("want the format and the address, have\n%v", err)
	}
}

func TestAlarmIsRoute(t *testing.T) {
	c, err := load(team("ALARM_URL=https://hooks.slack.com/services/hidden", "ALARM_FORMAT=slack", "PUBLIC_URL=https://n.example/"))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Alarm; a.Ack.String() != "body:ok" || a.Robot.String() != "slack" || !a.Target.Secret || c.PublicURL != "https://n.example" {
		t.Errorf("%+v, %s", a, c.PublicURL)
	}
	if text := strings.Join(Describe(c), "\n"); !strings.Contains(text, "alarms without Redis: https://hooks.slack.com (slack)") {
		t.Errorf("%s", text)
	}
}

func TestDeadLimitIsRefusedWhereDeadLettersBlock(t *testing.T) {
	c, err := load(with("ROUTE_ORDERS_DEAD_RETENTION=30d", "ROUTE_ORDERS_DEAD_KEEP=1000"))
	if err != nil {
		t.Fatal(err)
	}
	if rt := c.Routes[0]; rt.DeadRetention != 30*24*time.Hour || rt.DeadKeep != 1000 ||
		!strings.Contains(strings.Join(Describe(c), "\n"), ", dead letters removed after 720h, at most 1000 dead letters") {
		t.Errorf("%+v\n%s", rt, strings.Join(Describe(c), "\n"))
	}
	for _, v := range []struct{ setting, want string }{{"DEAD_RETENTION=10m", "1h"}, {"DEAD_KEEP=0", "whole number from 1"}} {
		if _, err := load(with("ROUTE_ORDERS_" + v.setting)); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: %v", v.setting, err)
		}
	}
	for _, setting := range []string{"DEAD_RETENTION=30d", "DEAD_KEEP=5"} {
		_, err := load(with("ROUTE_ORDERS_"+setting, "ROUTE_ORDERS_ORDER=id", "ROUTE_ORDERS_ORDER_DEAD=block"))
		if err == nil || !strings.Contains(err.Error(), "cannot be combined with ORDER_DEAD=block") || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
