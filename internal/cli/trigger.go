package cli

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

// samples are the built-in templates of notices for `notifier trigger`.
//
//go:embed templates/*.json
var samples embed.FS

// template is a notice with ${name} in its texts.
type template struct {
	About string `json:"about"`
	// Set has the names that may be set, with their defaults. The names id (unique), n (1 for the first notice of a
	// call) and now (RFC 3339) always have values.
	Set map[string]string `json:"set"`
	// Notice is the body of the schedule call.
	Notice json.RawMessage `json:"notice"`
}

// maxTriggers is the maximum number of notices of one call.
const maxTriggers = 100_000

// triggerBatch is the maximum number of notices in one request.
const triggerBatch = 1000

func (a *command) trigger() *cobra.Command {
	o := triggering{}
	c := &cobra.Command{
		Use:   "trigger TEMPLATE",
		Short: "Schedule sample notices from a template",
		Long: `Schedules sample notices, such as a payment's. TEMPLATE is one of --list, or a
JSON file:

  {"about": "A parcel was sent", "set": {"carrier": "post"},
   "notice": {"key": "app1:parcel:sent:${id}", "body": {"carrier": "${carrier}"}}}

${name} is replaced by a value of --set or its default, ${id} by a unique text, ${n} by the
number of the notice in this call, ${now} by the time. notice is the body of POST
/v1/notices. The samples' keys are under app1:trans; --set app= and module= change that.`,
		Example: `  notifier trigger --list
  notifier trigger trade.paid --set amount=12.50 --count 10
  notifier trigger order.close --set app=shop --set module=orders --delay 5s --to http://127.0.0.1:9000/
  notifier trigger ./parcel.json`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return a.listTemplates()
			}
			if len(args) == 0 {
				return usage("want a template: %s, or a file", strings.Join(sampleNames(), ", "))
			}

			o.delayed = cmd.Flags().Changed("delay")
			return a.fireOff(cmd, args[0], &o)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return sampleNames(), cobra.ShellCompDirectiveDefault
		},
	}
	f := c.Flags()
	f.BoolVar(&o.list, "list", false, "list the built-in templates")
	f.StringArrayVar(&o.set, "set", nil, "value of a name in the template, name=value; may be repeated")
	f.IntVar(&o.count, "count", 1, "how many notices to schedule")
	f.StringVar(&o.to, "to", "", "address to call, if the route's target is notice")
	delayVar(f, &o.delay, "delay", "time from now, instead of the template's")
	return a.withJSON(c)
}

// triggering are the flags of trigger.
type triggering struct {
	list    bool
	set     []string
	count   int
	to      string
	delay   time.Duration
	delayed bool
}

// sampleNames returns the sorted names of the samples.
func sampleNames() []string {
	entries, _ := samples.ReadDir("templates") // the templates are compiled in
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}

	return names
}

func (a *command) listTemplates() error {
	all := map[string]*template{}
	for _, name := range sampleNames() {
		t, err := readTemplate(name)
		if err != nil {
			return err
		}

		all[name] = t
	}

	if a.json {
		return a.sayValue(all)
	}

	rows := [][]cell{head("TEMPLATE\tABOUT\tSET")}
	for _, name := range sampleNames() {
		t := all[name]
		var set []string
		for _, k := range slices.Sorted(maps.Keys(t.Set)) {
			set = append(set, k+"="+t.Set[k])
		}

		rows = append(rows, row(name, t.About, strings.Join(set, ", ")))
	}

	a.screen.table(true, rows...)
	return nil
}

// readTemplate reads a sample by its name, or a file.
func readTemplate(name string) (*template, error) {
	raw, err := samples.ReadFile("templates/" + name + ".json")
	if err != nil {
		if raw, err = os.ReadFile(name); errors.Is(err, fs.ErrNotExist) && path.Ext(name) != ".json" {
			return nil, usage("no template is named %q; want %s, or a file", name, strings.Join(sampleNames(), ", "))
		}
	}

	if err != nil {
		return nil, usage("%w", err)
	}

	t := &template{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(t); err != nil {
		return nil, usage("template %s: %w", name, err)
	}
	if len(t.Notice) == 0 {
		return nil, usage("template %s: notice is missing", name)
	}

	return t, nil
}

// values returns the defaults of a template, replaced by those of --set.
func (t *template) values(set []string) (map[string]string, error) {
	values := maps.Clone(t.Set)
	if values == nil {
		values = map[string]string{}
	}

	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if _, known := values[name]; !ok || !known {
			return nil, usage("--set %q: want name=value with one of the names %s", s, strings.Join(slices.Sorted(maps.Keys(t.Set)), ", "))
		}

		values[name] = value
	}

	return values, nil
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_]+)\}`)

// fill returns v with the placeholders in its texts replaced. Inserted text is not searched again and cannot break the
// JSON.
func fill(v any, values map[string]string) (any, error) {
	switch v := v.(type) {
	case string:
		var unknown error
		text := placeholder.ReplaceAllStringFunc(v, func(found string) string {
			value, ok := values[found[2:len(found)-1]]
			if !ok {
				unknown = usage("the template contains %s, which set does not define", found)
			}

			return value
		})
		return text, unknown
	case []any:
		for i := range v {
			var err error
			if v[i], err = fill(v[i], values); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			var err error
			if v[k], err = fill(v[k], values); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// line returns the nth schedule call of a template as one line of JSON.
func (t *template) line(n int, values map[string]string, o *triggering) ([]byte, error) {
	values["n"], values["now"] = strconv.Itoa(n), notice.Stamp(time.Now())
	values["id"] = time.Now().UTC().Format("20060102150405") + strings.ToLower(rand.Text()[:8])
	var call map[string]any
	d := json.NewDecoder(bytes.NewReader(t.Notice))
	d.UseNumber() // numbers keep their spelling
	if err := d.Decode(&call); err != nil {
		return nil, usage("the template's notice: %w", err)
	}
	if _, err := fill(call, values); err != nil {
		return nil, err
	}

	if o.to != "" {
		call["url"] = o.to
	}

	if o.delayed {
		delete(call, "due")
		call["delay"] = o.delay.String()
	}

	return json.Marshal(call)
}

// fireOff schedules the notices of a template, at most 1,000 in one call.
func (a *command) fireOff(cmd *cobra.Command, name string, o *triggering) error {
	if o.count < 1 || o.count > maxTriggers {
		return usage("--count %d: want 1 to %d", o.count, maxTriggers)
	}

	t, err := readTemplate(name)
	if err != nil {
		return err
	}

	values, err := t.values(o.set)
	if err != nil {
		return err
	}

	c, err := a.client()
	if err != nil {
		return err
	}

	defer c.Close()

	for from := 1; from <= o.count; from += triggerBatch {
		lines, err := t.lines(from, min(from+triggerBatch, o.count+1), values, o)
		if err != nil {
			return err
		}

		results, err := c.ScheduleLines(cmd.Context(), lines, client.Repeatable())
		if err != nil {
			return err
		}
		if err := a.sayTriggered(results); err != nil {
			return err
		}
	}

	return nil
}

// sayTriggered prints the scheduled keys. It fails at the first failure.
func (a *command) sayTriggered(results []client.Result) error {
	for _, r := range results {
		if r.Problem != nil {
			return fmt.Errorf("%s: %w", r.Key, r.Problem)
		}

		if a.json {
			if err := a.sayLineOf(map[string]any{"key": r.Key, "created": r.Created}); err != nil {
				return err
			}
			continue
		}

		a.say("scheduled %s\n", r.Key)
	}
	return nil
}

// lines returns the requests of notices from one number up to, but not including, another.
func (t *template) lines(from, to int, values map[string]string, o *triggering) (lines [][]byte, err error) {
	for n := from; n < to; n++ {
		line, err := t.line(n, values, o)
		if err != nil {
			return nil, err
		}

		lines = append(lines, line)
	}
	return lines, nil
}
