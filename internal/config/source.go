package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// source is a Lookuper that treats empty variables as unset, and reads secrets from the files that _FILE variables
// name.
type source struct {
	lookup   envconfig.Lookuper
	readFile func(string) ([]byte, error)
}

func (s *source) value(name string) (string, bool) {
	v, ok := s.lookup.Lookup(name)
	v = strings.TrimSpace(v)
	return v, ok && v != ""
}

// reader reads variables and collects their problems.
type reader struct {
	*source
	errs  Errors
	known map[string]bool
	// hookOf is the value of ON_DEAD by the name of its route.
	hookOf map[string]string
	// formats are variables of the messages of hooks by the name of their route.
	formats map[string]formatVars
	// listed are the prefixes of the variables of clients and routes.
	listed []string
}

// fill reads the variables of one table, with that prefix, through go-envconfig.
func (r *reader) fill(prefix string, target any) {
	r.fillOr(prefix, target, func(string) (string, bool) { return "", false })
}

// fillOr is fill, with values for variables that are not set.
func (r *reader) fillOr(prefix string, target any, instead func(name string) (string, bool)) {
	if prefix != Prefix {
		r.listed = append(r.listed, prefix)
	}

	secrets := map[string]bool{}
	for f := range fields(elem(target)) {
		r.known[prefix+f.name] = true
		if f.secret {
			secrets[prefix+f.name] = true
			r.known[prefix+f.name+"_FILE"] = true
		}
	}

	look := envconfig.LookuperFunc(func(name string) (string, bool) {
		if secrets[name] {
			return r.secret(name)
		}

		if v, ok := r.value(name); ok {
			return v, ok
		}

		return instead(name)
	})
	err := envconfig.ProcessWith(context.Background(), &envconfig.Config{Target: target, Lookuper: envconfig.PrefixLookuper(prefix, look)})
	if err != nil {
		// The tables contain only strings, so no environment can cause this error.
		r.errs = append(r.errs, Problem{Variable: prefix + "…", Want: fmt.Sprintf("the table of variables is wrong: %v", err)})
	}
}

// secret returns a variable's value, or the content of the file that <name>_FILE names.
func (r *reader) secret(name string) (string, bool) {
	v, ok := r.value(name)
	file, inFile := r.value(name + "_FILE")
	switch {
	case ok && inFile:
		r.add(name, "", "set either "+name+" or "+name+"_FILE, not both")
		return "", false
	case !inFile:
		return v, ok
	}

	b, err := r.readFile(file)
	if err != nil {
		r.add(name+"_FILE", file, "want the name of a file that can be read ("+cause(err)+")")
		return "", false
	}

	if v = strings.TrimSpace(string(b)); v == "" {
		r.add(name+"_FILE", file, "is empty; want a file that contains the secret")
		return "", false
	}

	return v, true
}

// wrong adds a problem of a variable without its prefix, add one of a whole name.
func (r *reader) wrong(name, value, want string) { r.add(Prefix+name, value, "want "+want) }

func (r *reader) add(variable, value, text string) {
	r.errs = append(r.errs, Problem{Variable: variable, Value: value, Want: text})
}
