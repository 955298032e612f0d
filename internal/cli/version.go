package cli

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a *command) version() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  notifier version",
		Args:    takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.sayValue(map[string]string{"version": a.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}

			a.say("notifier %s (%s, %s/%s)\n", a.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	})
}
