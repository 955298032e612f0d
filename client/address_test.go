package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

func TestClientRedirects(t *testing.T) {
	c, _ := serve(t, nil)
	ctx := t.Context()
	if _, err := c.Schedule(ctx, client.Request{Key: "app1:orders:t:1", Delay: time.Hour, URL: "https://old.example/a?b"}); err != nil {
		t.Fatal(err)
	}
	ask := client.RedirectRequest{From: "https://old.example", To: "https://new.example/x", DryRun: true}
	if x, err := c.Redirect(ctx, ask); err != nil || x.Found != 1 || !x.Complete || x.ID != "" {
		t.Errorf("%+v, %v", x, err)
	}
	ask.DryRun = false
	x, err := c.Redirect(ctx, ask)
	if err != nil || x.ID == "" {
		t.Fatal(x, err)
	}
	id := x.ID
	testkit.Until(t, "the redirect has ended", func() bool {
		if x, err = c.ReadRedirect(ctx, id); err != nil {
			t.Fatal(err)
		}
		return x.State != client.RedirectRunning
	})
	if x.State != client.RedirectDone || x.Redirected != 1 {
		t.Errorf("%+v", x)
	}
	if list, err := c.Redirects(ctx); err != nil || len(list.Items) != 1 || list.Items[0].ID != id {
		t.Errorf("%+v, %v", list, err)
	}
	for _, call := range []func(context.Context, string) (*client.Redirect, error){c.StopRedirect, c.ResumeRedirect} {
		if _, err := call(ctx, id); !client.IsStatus(err, 409) {
			t.Errorf("of a redirect that is done: %v", err)
		}
	}
}

func TestClientChangesAddress(t *testing.T) {
	c, _ := serve(t, nil)
	ctx := t.Context()
	const key = "app1:orders:t:moved"
	asked := client.Request{Key: key, Delay: time.Hour, URL: "https://old.example/a?b", Headers: map[string]string{"x-a": "1"}}
	if _, err := c.Schedule(ctx, asked); err != nil {
		t.Fatal(err)
	}
	n, err := c.Readdress(ctx, key, client.Address{URL: "https://new.example/", Delay: 2 * time.Hour})
	if err != nil || n.URL != "https://new.example/" || n.ScheduledURL != "https://old.example/a" || n.Headers["x-a"] != "1" ||
		time.Until(n.Due) < time.Hour {
		t.Errorf("%+v, %v", n, err)
	}
	n, err = c.Readdress(ctx, key, client.Address{Headers: map[string]string{}})
	if err != nil || len(n.Headers) > 0 || n.URL != "https://new.example/" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestClientPausesAndLimitsReceivers(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, nil)
	ctx := t.Context()
	shop, until := client.ReceiverName{Host: "shop.example"}, time.Now().Add(time.Hour).Truncate(time.Second)
	r, err := c.PauseReceiver(ctx, client.ReceiverName{Host: "Shop.Example."}, until, time.Minute)
	if err != nil || r.ReceiverName != shop || !r.Paused || !r.PausedUntil.Equal(until) || !r.Changed {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = c.PauseReceiver(ctx, client.ReceiverName{Audience: "m17", Prefix: "app1"}, time.Time{}, 0); err != nil || !r.Paused ||
		!r.PausedUntil.IsZero() || r.Audience != "m17" || r.Prefix != "app1" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = c.LimitReceiver(ctx, shop, "300/m", 2); err != nil || r.Rate != "5/s" || r.Concurrency != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if l, err := c.Receivers(ctx, client.ReceiverQuery{}); err != nil || len(l.Items) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	one := client.ReceiverQuery{Host: "shop.example", State: "paused", Limit: 1}
	if l, err := c.Receivers(ctx, one); err != nil || len(l.Items) != 1 || l.Total != 1 || !l.Items[0].Paused || l.Items[0].Rate != "5/s" ||
		l.Items[0].ReceiverName != shop {
		t.Errorf("%+v, %v", l, err)
	}
	for _, changed := range []bool{true, false} {
		if r, err = c.ResumeReceiver(ctx, shop, 0); err != nil || r.Paused || r.Changed != changed {
			t.Errorf("%+v, %v, want changed %v", r, err, changed)
		}
	}
	if r, err = c.LimitReceiver(ctx, shop, "", 0); err != nil || r.Rate != "" || r.Concurrency != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = c.PauseReceiver(ctx, shop, time.Time{}, time.Hour)
	if !client.IsStatus(err, 422) || !strings.Contains(err.Error(), "needs until") {
		t.Errorf("a spread without an end: %v", err)
	}
}
