package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

func (a *command) jobs() *cobra.Command {
	var stop, resume bool
	c := &cobra.Command{
		Use:   "jobs [ID]",
		Short: "List, show, stop and resume bulk changes",
		Long: `Lists the cancels, redrives and purges of many notices that cancel --prefix, or redrive and
purge with --job, have started. With an ID it shows the progress of one; --stop stops it, and
--resume continues it.`,
		Example: `  notifier jobs
  notifier jobs job_5xkq7n4m2v6t3w8y9z0a --stop`,
		Args:              takes(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && (stop || resume) {
				return usage("want the ID of a job: notifier jobs lists them")
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			switch {
			case len(args) == 0:
				return a.listJobs(cmd.Context(), c)
			case stop:
				return callAndSay(cmd.Context(), c.StopJob, args[0], a.sayJob)
			case resume:
				return callAndSay(cmd.Context(), c.ResumeJob, args[0], a.sayJob)
			}

			return callAndSay(cmd.Context(), c.ReadJob, args[0], a.sayJob)
		},
	}
	c.Flags().BoolVar(&stop, "stop", false, "stop the job of the ID")
	c.Flags().BoolVar(&resume, "resume", false, "continue the stopped job of the ID")
	a.either(c, false, "stop", "resume")
	return a.withJSON(c)
}

// jobOf returns the job of the flags that redrive and purge share.
func jobOf(kind client.JobKind, routeName string, b client.Bulk) client.JobRequest {
	return client.JobRequest{Kind: kind, Prefix: b.Prefix, Route: routeName, Host: b.Host, Reason: b.Reason, Status: b.Status, Since: b.Since,
		Until: b.Until, Rate: b.Rate, DryRun: b.DryRun}
}

// beginJob starts a job and waits for its end. Unless sure is set, it first counts the notices and asks.
func (a *command) beginJob(ctx context.Context, r client.JobRequest, sure, detach bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}

	defer c.Close()
	if r.DryRun || !sure {
		plan := r
		plan.DryRun = true
		x, err := c.StartJob(ctx, plan)
		if err != nil || r.DryRun {
			return orSay(x, err, a.sayJobPlan)
		}

		if !a.agrees(fmt.Sprintf("%s %s at %s?", r.Kind, planned(x), x.Rate)) {
			return usage("nothing was changed; want yes, or --yes without a terminal")
		}
	}

	x, err := c.StartJob(ctx, r)
	if err != nil || detach {
		return orSay(x, err, a.sayJob)
	}

	bar := a.bar(max(x.Total, 1), "reading", "notices")
	err = a.follow(ctx, "jobs", x.ID, x.State == client.JobRunning, func() (bool, error) {
		next, err := c.ReadJob(ctx, x.ID)
		if err != nil {
			return false, err
		}

		x = next
		bar.ChangeMax64(max(x.Total, 1))
		_ = bar.Set64(x.Seen) // only drawing can fail
		return x.State == client.JobRunning, nil
	})
	if err == nil {
		_ = bar.Finish()
	}

	return orSay(x, err, a.sayJob)
}

// orSay returns an error, or prints a job.
func orSay(x *client.Job, err error, say func(*client.Job) error) error {
	if err != nil {
		return err
	}
	return say(x)
}

// agrees asks a question on the terminal.
func (a *command) agrees(question string) bool {
	a.complain("%s [y/N]", question)
	line, _ := bufio.NewReader(a.Stdin).ReadString('\n') // without input the answer is no
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// planned says how many notices a job would change.
func planned(x *client.Job) string {
	text := notice.Count(x.Found-x.Claimed-x.Refused, "notice")
	if !x.Complete {
		text = "more than " + text + " (not all were read within 5 seconds)"
	}

	return text
}

func (a *command) sayJobPlan(x *client.Job) error {
	if a.json {
		return a.sayJSON(x.JSON)
	}

	a.say("Dry run: %s would change %s at %s\n", x.Kind, planned(x), x.Rate)
	a.sayClaimed(x)
	return nil
}

func (a *command) sayClaimed(x *client.Job) {
	if x.Claimed > 0 {
		a.say("not changed, in flight: %s\n", notice.Count(x.Claimed, "notice"))
	}

	if x.Refused > 0 {
		a.say("not changed, expired: %s\n", notice.Count(x.Refused, "notice"))
	}
}

// sayJob prints the progress of a job.
func (a *command) sayJob(x *client.Job) error {
	if a.json {
		if err := a.sayJSON(x.JSON); err != nil {
			return err
		}
	} else {
		a.say("%s: %s %s, %d changed\n", clean(x.ID), x.Kind, x.State, x.Changed)
		a.sayClaimed(x)
		if x.State == client.JobStopped {
			a.say("notifier jobs %s --resume continues it\n", clean(x.ID))
		}
	}

	if x.State == client.JobFailed {
		return fmt.Errorf("the job failed: %s", x.Problem)
	}

	return nil
}

func (a *command) listJobs(ctx context.Context, c *client.Client) error {
	list, err := c.Jobs(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.sayJSON(list.JSON)
	}

	rows := [][]cell{head("MADE\tID\tKIND\tSTATE\tCHANGED\tCLAIMED\tREAD\tPREFIX\tHOST")}
	for i := range list.Items {
		x := &list.Items[i]
		rows = append(rows, row(a.screen.near(x.CreatedAt), x.ID, string(x.Kind), string(x.State), x.Changed, x.Claimed,
			fmt.Sprintf("%d of %d", x.Seen, x.Total), x.Prefix, x.Host))
	}

	a.screen.table(true, rows...)
	return nil
}
