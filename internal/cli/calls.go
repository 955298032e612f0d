package cli

import (
	"context"

	"notifier/client"
)

// one makes a call for one notice and prints it.
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

	if done != nil && n.Due.IsZero() { // a settled notice that is no longer stored
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
		if err != nil {
			failed++
			if asksForWrong(err) {
				wrong++
			}

			a.complain("%s: %s", clean(key), a.explain(err))
			continue
		}

		if err := a.sayChanged(n, key, verb); err != nil {
			return err
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

// sayChanged prints the answer to a call that changes a notice.
func (a *command) sayChanged(n *client.Notice, key, verb string) error {
	switch {
	case a.json:
		return a.sayJSON(n.JSON)
	case !n.Changed && string(n.State) == verb:
		a.say("%s: already %s\n", clean(key), verb)
		return nil
	case !n.Changed:
		a.say("%s: already %s, now %s\n", clean(key), verb, n.State)
		return nil
	}

	note := ""
	if n.InFlight {
		note = "; an attempt was running and may still reach the receiver"
	}

	if n.State == client.Scheduled {
		note += ", due " + a.screen.when(n.Due)
	}

	a.say("%s: %s%s\n", clean(key), verb, note)
	return nil
}
