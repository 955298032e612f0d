package config

import (
	"strings"
	"testing"
	"time"
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
