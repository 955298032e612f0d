package cli

import (
	"context"

	"notifier/client"
)

// one makes a call about one notice and shows it.
func (a *command) one(call func(*client.Client) (*client.Notice, error), done func(*client.Notice) string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	n, err := call(c)
	if err != nil {
		return err
	}
	if a.json {
		return a.sayJSON(n.JSON)
	}
	if done != nil && n.Due.IsZero() { // of a settled notice that is no longer kept
		a.say("%s: %s\n", clean(n.Key), done(n))
		return nil
	}
	if done != nil {
		a.say("%s: %s, due %s\n", clean(n.Key), done(n), a.screen.when(n.Due))
		return nil
	}
	a.sayNotice(n)
	return nil
}

func (a *command) each(ctx context.Context, keys []string, verb string, call func(context.Context, *client.Client,
	string) (*client.Notice, error)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	failed, wrong := 0, 0
	for _, key := range keys {
		n, err := call(ctx, c, key)
		switch {
		case err != nil:
			failed++
			if asksForWrong(err) {
				wrong++
			}
			a.complain("%s: %s", clean(key), a.explain(err))
		case a.json:
			if err := a.sayJSON(n.JSON); err != nil {
				return err
			}
		case !n.Changed && n.State == verb:
			a.say("%s: is %s already\n", clean(key), verb)
		case !n.Changed:
			a.say("%s: was %s already, and is %s\n", clean(key), verb, n.State)
		default:
			note := ""
			if n.InFlight {
				note = "; an attempt was running and may still reach the receiver"
			}
			if n.State == "scheduled" {
				note += ", due " + a.screen.when(n.Due)
			}
			a.say("%s: %s%s\n", clean(key), verb, note)
		}
	}
	switch {
	case failed > 0 && failed == wrong:
		return errQuietlyWrong
	case failed > 0:
		return errQuiet
	}
	return nil
}
